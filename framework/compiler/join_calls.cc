#include "framework/compiler/join_calls.h"

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/device_kind.h"

namespace sluice {
namespace {

class Joiner {
 public:
  Joiner(const Graph& graph, const Mesh& mesh, TaskGraph* tasks)
      : graph_(graph), mesh_(mesh), tasks_(*tasks), group_of_(tasks->tasks.size(), -1) {}

  void Run() {
    for (size_t t = 0; t < tasks_.tasks.size(); ++t) Visit(static_cast<TaskId>(t));
    std::vector<TaskId> place(tasks_.tasks.size(), -1);
    std::vector<Task> kept;
    for (size_t t = 0; t < tasks_.tasks.size(); ++t) {
      const int32_t group = group_of_[t];
      if (group >= 0 && groups_[group].back() != static_cast<TaskId>(t)) continue;
      kept.push_back(group < 0 ? std::move(tasks_.tasks[t]) : Joined(groups_[group]));
      place[t] = static_cast<TaskId>(kept.size()) - 1;
    }
    for (Value& value : tasks_.values) {
      if (value.producer < 0) continue;
      const int32_t group = group_of_[value.producer];
      value.producer = place[group < 0 ? value.producer : groups_[group].back()];
    }
    tasks_.tasks = std::move(kept);
  }

 private:
  // What calls that are joined have in common: the script that they are in, and the op.
  using Key = std::tuple<int32_t, Phase, int64_t, int64_t, std::string, std::string, size_t>;

  bool Joins(const Task& task) const {
    return task.kind == plan::INSTRUCTION_KERNEL && task.node >= 0 && task.every == 1 &&
           graph_.node(task.node).op->joins &&
           mesh_.devices()[task.device].kind == DeviceKind::kCuda;
  }

  // What a group has made and a task reads cannot wait for further calls of that group, nor can its
  // reading of what the task changes.
  void CloseGroupsInTheWayOf(const Task& task) {
    for (const TaskInput& input : task.inputs) {
      const ValueId root = tasks_.values[input.value].root;
      const TaskId maker = tasks_.values[root].producer;
      if (maker >= 0 && group_of_[maker] >= 0) closed_[group_of_[maker]] = true;
      const auto readers = readers_.find(root);
      if (!input.updates || readers == readers_.end()) continue;
      for (const int32_t group : readers->second) closed_[group] = true;
    }
  }

  void Visit(TaskId t) {
    const Task& task = tasks_.tasks[t];
    CloseGroupsInTheWayOf(task);
    if (!Joins(task)) return;
    const Key key = {task.device, task.phase,      task.firings,      task.round,
                     task.op,     task.attributes, task.inputs.size()};
    int32_t& group = latest_.try_emplace(key, -1).first->second;
    if (group < 0 || closed_[group]) {
      group = static_cast<int32_t>(groups_.size());
      groups_.emplace_back();
      closed_.push_back(false);
    }
    groups_[group].push_back(t);
    group_of_[t] = group;
    for (const TaskInput& input : task.inputs) {
      if (!input.updates) readers_[tasks_.values[input.value].root].insert(group);
    }
  }

  Task Joined(const std::vector<TaskId>& group) {
    Task joined = tasks_.tasks[group[0]];
    if (group.size() == 1) return joined;
    joined.calls = {joined.node};
    for (size_t i = 1; i < group.size(); ++i) {
      const Task& task = tasks_.tasks[group[i]];
      joined.calls.push_back(task.node);
      joined.inputs.insert(joined.inputs.end(), task.inputs.begin(), task.inputs.end());
      joined.outputs.insert(joined.outputs.end(), task.outputs.begin(), task.outputs.end());
      joined.position = task.position;
      joined.flops += task.flops;
      joined.bytes += task.bytes;
      joined.scratch += task.scratch;
      joined.nanoseconds += task.nanoseconds;
      joined.cold_nanoseconds += task.cold_nanoseconds;
    }
    absl::StrAppend(&joined.scope, " and ", group.size() - 1, " more");
    return joined;
  }

  const Graph& graph_;
  const Mesh& mesh_;
  TaskGraph& tasks_;
  std::map<Key, int32_t> latest_;                 // group of such calls
  std::vector<std::vector<TaskId>> groups_;       // in order
  std::vector<bool> closed_;                      // by group: takes no more calls
  std::map<ValueId, std::set<int32_t>> readers_;  // by root: groups that read it and leave it so
  std::vector<int32_t> group_of_;                 // by task; -1: none
};

}  // namespace

void JoinCalls(const Graph& graph, const Mesh& mesh, TaskGraph* tasks) {
  Joiner(graph, mesh, tasks).Run();
}

}  // namespace sluice
