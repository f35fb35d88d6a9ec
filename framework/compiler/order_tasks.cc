#include "framework/compiler/order_tasks.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "framework/base/device_kind.h"

namespace sluice {
namespace {

// Bytes for which a task is worth another place than the model gives it. Packing may pay for a move
// with waits where memory is used again.
constexpr int64_t kWorthMoving = 1 << 20;

// What this module moves or moves others along: kernels of a compute stream that launch one by one.
bool IsKernel(const Mesh& mesh, const Task& task) {
  return task.kind == plan::INSTRUCTION_KERNEL && task.stream == plan::STREAM_COMPUTE &&
         task.every == 1 && mesh.devices()[task.device].kind != DeviceKind::kCuda;
}

// Puts tasks into the order of `order`, by their places before.
void Reorder(const std::vector<TaskId>& order, TaskGraph* tasks) {
  std::vector<TaskId> place(order.size());
  std::vector<Task> ordered;
  ordered.reserve(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    place[order[i]] = static_cast<TaskId>(i);
    ordered.push_back(std::move(tasks->tasks[order[i]]));
  }
  tasks->tasks = std::move(ordered);
  for (Value& value : tasks->values) {
    if (value.producer >= 0) value.producer = place[value.producer];
  }
}

class EarlyUpdates {
 public:
  EarlyUpdates(const Mesh& mesh, TaskGraph* tasks)
      : mesh_(mesh), tasks_(*tasks), behind_(tasks->tasks.size(), -1) {}

  void Run() {
    FindBackward();
    for (size_t t = 0; t < tasks_.tasks.size(); ++t) Visit(static_cast<TaskId>(t));
    KeepWhatNeedsNoMove();
    std::vector<TaskId> order(tasks_.tasks.size());
    std::iota(order.begin(), order.end(), 0);
    const auto key = [&](TaskId t) {
      return behind_[t] < 0 ? std::pair(t, 0) : std::pair(behind_[t], 1);
    };
    std::stable_sort(order.begin(), order.end(),
                     [&](TaskId a, TaskId b) { return key(a) < key(b); });
    for (size_t t = 0; t < behind_.size(); ++t) {
      Task& task = tasks_.tasks[t];
      if (behind_[t] >= 0 && task.stream == plan::STREAM_COMPUTE) task.script = Phase::kBackward;
    }
    Reorder(order, &tasks_);
  }

 private:
  // One script, and all of it behind no join.
  static bool FiresOnce(const Task& task) { return task.firings == 1 && task.round == 0; }

  void FindBackward() {
    for (size_t t = 0; t < tasks_.tasks.size(); ++t) {
      const Task& task = tasks_.tasks[t];
      if (!IsKernel(mesh_, task) || !FiresOnce(task) || task.phase != Phase::kBackward) continue;
      const TaskId id = static_cast<TaskId>(t);
      backward_.try_emplace(task.device, id, id).first->second.second = id;
    }
  }

  // Tasks that must be over before the reader of `input`, in the order that there is.
  std::vector<TaskId> Before(const TaskInput& input) {
    const ValueId root = tasks_.values[input.value].root;
    std::vector<TaskId> before;
    if (tasks_.values[root].producer >= 0) before.push_back(tasks_.values[root].producer);
    if (const auto found = updated_.find(root); found != updated_.end()) {
      before.push_back(found->second);
    }
    if (const auto found = readers_.find(root); input.updates && found != readers_.end()) {
      before.insert(before.end(), found->second.begin(), found->second.end());
    }
    return before;
  }

  // The task behind which an update that waits for `other` can stand; -1: it must stay.
  TaskId PlaceBehind(const Task& update, TaskId other, TaskId first) const {
    const Task& task = tasks_.tasks[other];
    if (task.device != update.device) return -1;
    if (task.kind == plan::INSTRUCTION_FEED) return first;
    if (behind_[other] >= 0) return behind_[other];
    const bool stays_before = IsKernel(mesh_, task) && FiresOnce(task);
    return stays_before && task.phase != Phase::kUpdate ? std::max(first, other) : -1;
  }

  void Visit(TaskId t) {
    const Task& task = tasks_.tasks[t];
    const auto found = backward_.find(task.device);
    if (found != backward_.end() && task.phase == Phase::kUpdate && FiresOnce(task) &&
        IsKernel(mesh_, task)) {
      const auto [first, last] = found->second;
      TaskId behind = first;
      for (const TaskInput& input : task.inputs) {
        for (const TaskId other : Before(input)) {
          const TaskId place = PlaceBehind(task, other, first);
          behind = place < 0 || behind < 0 ? -1 : std::max(behind, place);
        }
      }
      if (behind < last) behind_[t] = behind;
    }
    for (const TaskInput& input : task.inputs) {
      const ValueId root = tasks_.values[input.value].root;
      readers_[root].push_back(t);
      if (input.updates) updated_[root] = t;
    }
  }

  // Updates of variables move, what they need, and whoever else would keep a gradient that they
  // read.
  void KeepWhatNeedsNoMove() {
    std::set<TaskId> needed;
    std::set<ValueId> read;
    for (TaskId t = static_cast<TaskId>(behind_.size()) - 1; t >= 0; --t) {
      if (behind_[t] < 0) continue;
      const Task& task = tasks_.tasks[t];
      bool moves = needed.contains(t);
      for (const TaskInput& input : task.inputs) {
        moves |= input.updates || read.contains(tasks_.values[input.value].root);
      }
      if (!moves) behind_[t] = -1;
      for (const TaskInput& input : task.inputs) {
        const TaskId maker = tasks_.values[input.value].producer;
        if (!moves || maker < 0) continue;
        needed.insert(maker);
        if (tasks_.tasks[maker].phase == Phase::kBackward) {
          read.insert(tasks_.values[input.value].root);
        }
        const TaskId first = backward_.at(task.device).first;
        if (tasks_.tasks[maker].kind == plan::INSTRUCTION_FEED && maker > first) {
          behind_[maker] = first;
        }
      }
    }
  }

  const Mesh& mesh_;
  TaskGraph& tasks_;
  std::map<int32_t, std::pair<TaskId, TaskId>> backward_;  // by device: first and last of it
  std::vector<TaskId> behind_;                             // by task: where to; -1: it stays
  std::map<ValueId, TaskId> updated_;                      // by root: who has changed it
  std::map<ValueId, std::vector<TaskId>> readers_;         // by root, those that change it as well
};

class LateMakers {
 public:
  LateMakers(const Mesh& mesh, TaskGraph* tasks)
      : mesh_(mesh), tasks_(*tasks), place_(tasks->tasks.size()), order_(place_.size()) {
    std::iota(order_.begin(), order_.end(), 0);
    std::iota(place_.begin(), place_.end(), 0);
    for (size_t t = 0; t < tasks_.tasks.size(); ++t) {
      for (const TaskInput& input : tasks_.tasks[t].inputs) {
        readers_[tasks_.values[input.value].root].push_back(
            {static_cast<TaskId>(t), input.updates});
      }
    }
  }

  void Run() {
    for (TaskId t = static_cast<TaskId>(place_.size()) - 1; t >= 0; --t) Visit(t);
    Reorder(order_, &tasks_);
  }

 private:
  struct Reader {
    TaskId task;
    bool updates;
  };

  static bool SameScript(const Task& a, const Task& b) {
    return a.device == b.device && a.stream == b.stream && a.ScriptPhase() == b.ScriptPhase() &&
           a.firings == b.firings && a.round == b.round;
  }

  // Of one firing; alike on all devices of a stage, however unevenly they share a tensor.
  int64_t BytesOf(ValueId root) const {
    const Value& value = tasks_.values[root];
    return value.shard.logical.NumElements() * SizeOf(value.shard.dtype) / value.tokens;
  }

  // The first to read what the task makes; -1: that leaves its script, or is never read.
  TaskId FirstReader(TaskId t) const {
    TaskId first = -1;
    for (const ValueId output : tasks_.tasks[t].outputs) {
      if (tasks_.values[output].root != output || tasks_.values[output].leaves_script) return -1;
      const auto found = readers_.find(output);
      if (found == readers_.end()) return -1;
      for (const Reader& reader : found->second) {
        if (!SameScript(tasks_.tasks[t], tasks_.tasks[reader.task])) return -1;
        if (first < 0 || place_[reader.task] < place_[first]) first = reader.task;
      }
    }
    return first;
  }

  // Whether the task may wait until right before `reader`, and fewer bytes wait for it than would
  // for the reader.
  bool IsBetterBefore(TaskId t, TaskId reader) const {
    int64_t gain = 0;
    for (const ValueId output : tasks_.tasks[t].outputs) gain += BytesOf(output);
    std::set<ValueId> inputs;
    for (const TaskInput& input : tasks_.tasks[t].inputs) {
      inputs.insert(tasks_.values[input.value].root);
    }
    for (const ValueId root : inputs) {
      const bool variable = tasks_.values[root].producer < 0;
      bool kept = variable;
      for (const Reader& other : readers_.at(root)) {
        const bool before = place_[other.task] < place_[reader];
        if (other.updates && before && place_[other.task] > place_[t]) return false;
        kept |= !before;
      }
      if (!kept) gain -= BytesOf(root);
    }
    return gain >= kWorthMoving;
  }

  void Visit(TaskId t) {
    const Task& task = tasks_.tasks[t];
    if (!IsKernel(mesh_, task) || task.ScriptPhase() != Phase::kBackward) return;
    for (const TaskInput& input : task.inputs) {
      if (input.updates) return;
    }
    const TaskId reader = FirstReader(t);
    if (reader < 0 || place_[reader] <= place_[t] + 1 || !IsBetterBefore(t, reader)) return;
    const auto begin = order_.begin() + place_[t], end = order_.begin() + place_[reader];
    std::rotate(begin, begin + 1, end);
    for (TaskId i = place_[t], last = place_[reader]; i < last; ++i) place_[order_[i]] = i;
  }

  const Mesh& mesh_;
  TaskGraph& tasks_;
  std::vector<TaskId> place_, order_;               // by task, by place
  std::map<ValueId, std::vector<Reader>> readers_;  // by root
};

}  // namespace

void OrderTasks(const Mesh& mesh, TaskGraph* tasks) {
  EarlyUpdates(mesh, tasks).Run();
  LateMakers(mesh, tasks).Run();
}

}  // namespace sluice
