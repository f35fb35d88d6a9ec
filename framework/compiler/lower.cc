#include "framework/compiler/lower.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "framework/base/log.h"
#include "framework/base/status.h"

namespace sluice {
namespace {

class Lowering {
 public:
  Lowering(const Graph& graph, const Grid& grid, const SbpAssignment& assignment,
           BoxingPlanner* planner, const Machine& machine, const DeviceClasses& classes,
           const CollectiveOptions& collectives, const Stop& stop)
      : graph_(graph),
        grid_(grid),
        assignment_(assignment),
        machine_(machine),
        classes_(classes),
        stop_(stop),
        boxer_(graph, grid, assignment, planner, machine, classes, collectives, &tasks_) {}

  absl::StatusOr<TaskGraph> Run() {
    for (NodeId id : graph_.inputs()) {
      const Node& node = graph_.node(id);
      tasks_.feeds.push_back({node.name, graph_.tensor(node.outputs[0]).type});
    }
    for (NodeId id : graph_.variables()) LowerVariable(graph_.node(id));
    for (const Node& node : graph_.nodes()) {
      if (node.op == &InputOp() || node.op == &VariableOp()) continue;
      RETURN_IF_ERROR(CheckStop(stop_));
      RETURN_IF_ERROR(AddContext(LowerNode(node), node.name));
    }
    RETURN_IF_ERROR(LowerFetches());
    DropShadows();
    SortTasks();
    return std::move(tasks_);
  }

 private:
  void LowerVariable(const Node& node);
  absl::Status LowerNode(const Node& node);
  void LowerTask(const Node& node, int64_t member, int64_t position, int64_t firings,
                 const std::vector<Boxer::Values>& reads, const std::vector<Boxer::Values>& made);
  absl::Status LowerFetches();
  void DropShadows();
  void SortTasks();

  const Graph& graph_;
  const Grid& grid_;
  const SbpAssignment& assignment_;
  const Machine& machine_;
  const DeviceClasses& classes_;
  const Stop& stop_;
  TaskGraph tasks_;
  Boxer boxer_;
};

void Lowering::LowerVariable(const Node& node) {
  const TensorId tensor = node.outputs[0];
  const GridSbp& sbp = assignment_.produced[tensor];
  const int32_t stage = std::max(node.stage, 0);
  Boxer::Values values = boxer_.Make(tensor, sbp, stage, 1);
  for (ValueId v : values) {
    tasks_.values[v].variable = node.name;
    tasks_.values[v].cache = graph_.tensor(tensor).role == Role::kCache;
  }
  boxer_.Put(tensor, sbp, stage, std::move(values));
}

absl::Status Lowering::LowerNode(const Node& node) {
  const Choice& choice = assignment_.choices[node.id];
  const int32_t stage = std::max(node.stage, 0);
  int64_t firings = 1;
  for (const GridSbp& sbp : choice.inputs) firings = std::max(firings, grid_.Firings(sbp));
  for (const GridSbp& sbp : choice.outputs) firings = std::max(firings, grid_.Firings(sbp));
  boxer_.set_reader(node.name);
  std::vector<Boxer::Values> reads, made;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    ASSIGN_OR_RETURN(Boxer::Values values,
                     boxer_.Get(node.inputs[i], choice.inputs[i], stage, node.phase));
    reads.push_back(std::move(values));
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const GridSbp& sbp = choice.outputs[i];
    if (!node.op->view && grid_.Firings(sbp) != firings) {
      return absl::InternalError(
          absl::StrCat("fires ", firings, " times, its output ", i, " is ", grid_.ToString(sbp)));
    }
    Boxer::Values values = boxer_.Make(node.outputs[i], sbp, stage, grid_.Firings(sbp));
    boxer_.Put(node.outputs[i], sbp, stage, values);
    made.push_back(std::move(values));
  }
  if (node.op->view) {
    for (size_t d = 0; d < made[0].size(); ++d) {
      SLUICE_CHECK(tasks_.values[made[0][d]].shard.local.NumElements() ==
                   tasks_.values[reads[0][d]].shard.local.NumElements())
          << node.name << ": a view of other size";
      boxer_.View(made[0][d], reads[0][d], 0);
    }
    return absl::OkStatus();
  }
  const int64_t position = boxer_.NextPosition();
  const int64_t members = static_cast<int64_t>(classes_.members(stage).size());
  for (int64_t m = 0; m < members; ++m) LowerTask(node, m, position, firings, reads, made);
  return absl::OkStatus();
}

void Lowering::LowerTask(const Node& node, int64_t member, int64_t position, int64_t firings,
                         const std::vector<Boxer::Values>& reads,
                         const std::vector<Boxer::Values>& made) {
  Task task;
  task.op = node.op->name;
  task.attributes = PrintAttributes(node.attributes);
  task.scope = node.name;
  task.node = node.id;
  task.phase = node.phase;
  task.stage = std::max(node.stage, 0);
  task.device = grid_.DeviceIndex(task.stage, classes_.members(task.stage)[member]);
  task.firings = firings;
  task.position = {position, 0};
  std::vector<TensorType> inputs, outputs;
  bool bf16 = false;
  for (size_t i = 0; i < reads.size(); ++i) {
    const size_t port = std::min(i, node.op->inputs.size() - 1);
    const Value& value = tasks_.values[reads[i][member]];
    task.inputs.push_back({reads[i][member], node.op->inputs[port].updates});
    inputs.push_back({value.shard.dtype, value.shard.local});
    bf16 |= value.shard.dtype == DType::kBF16;
  }
  for (const Boxer::Values& values : made) {
    const Value& value = tasks_.values[values[member]];
    task.outputs.push_back(values[member]);
    outputs.push_back({value.shard.dtype, value.shard.local});
  }
  const Cost cost = node.op->cost({node.attributes, inputs, outputs});
  task.flops = cost.flops;
  task.bytes = cost.bytes;
  task.scratch = cost.ScratchOn(grid_.mesh().devices()[task.device].kind);
  task.nanoseconds =
      machine_.KernelNanoseconds(task.op, cost.sizes.dims(), cost.flops, cost.bytes, bf16);
  task.cold_nanoseconds = machine_.ColdNanoseconds(task.op, cost.sizes.dims());
  boxer_.Add(std::move(task));
}

// Every output is brought whole to the first device of its stage, and read there by the host: that
// of the mesh's first device. Only its rank has the fetches.
absl::Status Lowering::LowerFetches() {
  for (const auto& output : graph_.outputs()) {
    const TensorInfo& info = graph_.tensor(output.second);
    const int32_t stage = std::max(graph_.node(info.producer).stage, 0);
    boxer_.set_reader(absl::StrCat("output ", output.first));
    ASSIGN_OR_RETURN(const Boxer::Values made,
                     boxer_.Get(output.second, grid_.Broadcast(), stage, Phase::kUpdate));
    const Boxer::Values values = boxer_.OnHosts(made, Phase::kUpdate, /*boxing=*/-1);
    for (ValueId v : values) tasks_.values[tasks_.values[v].root].leaves_script = true;
    const bool fetches_here = classes_.Wanted(0, 0), held_here = classes_.Wanted(stage, 0);
    Task task;
    task.kind = plan::INSTRUCTION_FETCH;
    task.scope = absl::StrCat("output ", output.first);
    task.phase = Phase::kUpdate;
    task.stream = plan::STREAM_HOST;
    task.device = classes_.host(0);
    task.position = {boxer_.NextPosition(), 0};
    task.number = boxer_.NextNumber(0);
    if (!fetches_here) {
      if (held_here) boxer_.AddRemoteReader(values[0], 0, 0, task.number, task);
      continue;
    }
    ValueId whole = values[0];
    if (!held_here) {
      const Shard shard = tasks_.values[whole].shard;
      whole = boxer_.Foreign(values, stage, 0, shard, task.number);
    }
    task.inputs = {{whole, false}};
    task.port = static_cast<int32_t>(tasks_.fetches.size());
    task.bytes = info.type.shape.NumElements() * SizeOf(info.type.dtype);
    tasks_.fetches.push_back({output.first, info.type});
    boxer_.Add(std::move(task));
  }
  return absl::OkStatus();
}

// Of a rank: the tasks of devices that stand for their stage alone, and their values' storage.
void Lowering::DropShadows() {
  if (!classes_.any_foreign()) return;
  std::vector<bool> wanted(classes_.num_devices());
  for (int64_t s = 0; s < grid_.num_groups(); ++s) {
    for (int64_t i = 0; i < grid_.stage(s).num_devices(); ++i) {
      const int32_t device = grid_.DeviceIndex(s, i);
      wanted[device] = wanted[classes_.host(device)] = classes_.Wanted(s, i);
    }
  }
  std::vector<TaskId> place(tasks_.tasks.size(), -1);
  std::vector<Task> kept;
  for (size_t t = 0; t < tasks_.tasks.size(); ++t) {
    Task& task = tasks_.tasks[t];
    if (!wanted[task.device] && task.kind != plan::INSTRUCTION_REMOTE) continue;
    place[t] = static_cast<TaskId>(kept.size());
    kept.push_back(std::move(task));
  }
  tasks_.tasks = std::move(kept);
  for (Value& value : tasks_.values) {
    if (value.producer >= 0) value.producer = place[value.producer];
    if (!wanted[value.device]) value.leaves_script = false;
  }
}

void Lowering::SortTasks() {
  std::vector<TaskId> order(tasks_.tasks.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<TaskId>(i);
  std::stable_sort(order.begin(), order.end(), [&](TaskId a, TaskId b) {
    return tasks_.tasks[a].position < tasks_.tasks[b].position;
  });
  std::vector<TaskId> place(order.size());
  std::vector<Task> sorted;
  for (size_t i = 0; i < order.size(); ++i) {
    place[order[i]] = static_cast<TaskId>(i);
    sorted.push_back(std::move(tasks_.tasks[order[i]]));
  }
  for (Value& value : tasks_.values) {
    if (value.producer >= 0) value.producer = place[value.producer];
  }
  tasks_.tasks = std::move(sorted);
}

}  // namespace

absl::StatusOr<TaskGraph> Lower(const Graph& graph, const Grid& grid,
                                const SbpAssignment& assignment, BoxingPlanner* planner,
                                const Machine& machine, const DeviceClasses& classes,
                                const CollectiveOptions& collectives, const Stop& stop) {
  return Lowering(graph, grid, assignment, planner, machine, classes, collectives, stop).Run();
}

absl::StatusOr<TaskGraph> Lower(const Graph& graph, const Grid& grid,
                                const SbpAssignment& assignment, BoxingPlanner* planner,
                                const Machine& machine) {
  return Lower(graph, grid, assignment, planner, machine, DeviceClasses::Singles(grid));
}

}  // namespace sluice
