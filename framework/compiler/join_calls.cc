#include "framework/compiler/join_calls.h"

#include <algorithm>
#include <map>
#include <numeric>
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
    FindEarly();
    const std::vector<TaskId> order = WithEarlyTogether();
    for (const TaskId t : order) Visit(t);
    std::vector<TaskId> place(tasks_.tasks.size(), -1);
    std::vector<Task> kept;
    for (const TaskId t : order) {
      const int32_t group = group_of_[t];
      if (group >= 0 && groups_[group].back() != t) continue;
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
  // What calls that are joined have in common: the script that they are in, the op, and, of sums of
  // what one task made, that task.
  using Key =
      std::tuple<int32_t, Phase, int64_t, int64_t, std::string, std::string, size_t, TaskId>;

  bool MayJoin(const Task& task) const {
    return task.kind == plan::INSTRUCTION_KERNEL && task.node >= 0 && task.every == 1 &&
           mesh_.devices()[task.device].kind == DeviceKind::kCuda;
  }
  TaskId MakerOf(const Task& task) const {
    return tasks_.values[tasks_.values[task.inputs[0].value].root].producer;
  }
  Key KeyOf(TaskId t) const {
    const Task& task = tasks_.tasks[t];
    return {task.device, task.phase,      task.firings,       task.round,
            task.op,     task.attributes, task.inputs.size(), early_[t] ? MakerOf(task) : -1};
  }

  // Casts of what no task makes: of parameters, as a program begins. It reads none after its
  // update. And reductions of what a task makes beside each other, as are those of the gradients
  // that attention makes of three products with biases: each by itself is too small for a card.
  void FindEarly() {
    for (const Task& task : tasks_.tasks) {
      early_.push_back(MayJoin(task) && ((task.op == "cast" && MakerOf(task) < 0) ||
                                         (task.op == "reduce" && MakerOf(task) >= 0)));
    }
  }
  // All tasks in order, but for those of FindEarly: where the first of a script stands, the others
  // follow. Casts are read throughout a step, so that little memory is taken for longer; what is
  // reduced is there as the first is.
  std::vector<TaskId> WithEarlyTogether() const {
    std::vector<TaskId> order(tasks_.tasks.size()), at(order.size());
    std::iota(order.begin(), order.end(), 0);
    std::map<Key, TaskId> first;
    for (const TaskId t : order) {
      at[t] = early_[t] ? first.try_emplace(KeyOf(t), t).first->second : t;
    }
    std::stable_sort(order.begin(), order.end(), [&](TaskId a, TaskId b) { return at[a] < at[b]; });
    return order;
  }

  bool Joins(TaskId t) const {
    const Task& task = tasks_.tasks[t];
    return early_[t] || (MayJoin(task) && graph_.node(task.node).op->joins);
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
    if (!Joins(t)) return;
    int32_t& group = latest_.try_emplace(KeyOf(t), -1).first->second;
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
      if (!early_[group[i]]) joined.position = task.position;
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
  std::vector<bool> early_;                       // by task
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
