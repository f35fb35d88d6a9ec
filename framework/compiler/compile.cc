#include "framework/compiler/compile.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/hash.h"
#include "framework/base/log.h"
#include "framework/base/status.h"
#include "framework/compiler/device_classes.h"
#include "framework/compiler/explain.h"
#include "framework/compiler/grid.h"
#include "framework/compiler/lower.h"
#include "framework/compiler/memory.h"
#include "framework/compiler/place.h"
#include "framework/compiler/schedule.h"
#include "framework/compiler/select_sbp.h"
#include "framework/compiler/transfers.h"
#include "framework/plan/shard_proto.h"
#include "framework/sim/prediction.h"

namespace sluice {
namespace {

int64_t DevicesOfARank(const Mesh& mesh) {
  return std::count_if(mesh.devices().begin(), mesh.devices().end(),
                       [&](DeviceId id) { return id.rank == mesh.devices()[0].rank; });
}

class Compiler {
 public:
  Compiler(const CompileOptions& options, Explanation* explanation)
      : options_(options),
        machine_(options.machine.ForDevices(DevicesOfARank(options.mesh))),
        planner_(machine_),
        explanation_(explanation) {
    for (DeviceId id : options.mesh.devices()) {
      plan::Device* device = plan_.add_devices();
      device->set_rank(id.rank);
      device->set_local(id.local);
      device->set_kind(static_cast<plan::DeviceKind>(id.kind));
    }
    plan_.set_representatives_only(options.representatives_only);
    const Grid grid(options.mesh, 1);
    // Transfers differ from device to device, so each then stands for itself.
    if (NeedsTransfers(plan_)) {
      AddHostDevices(&plan_);
      classes_.emplace(DeviceClasses::Singles(grid));
    } else {
      classes_.emplace(grid);
    }
    if (explanation_ != nullptr) ExplainDevices(options.mesh, explanation_);
  }

  absl::StatusOr<plan::Plan> Run(absl::Span<const ProgramGraph> programs) {
    for (size_t p = 0; p < programs.size(); ++p) {
      const int64_t own = programs[p].micro_batches;
      const int64_t micro = own != 0 ? own : p == 0 ? options_.micro_batches : 1;
      RETURN_IF_ERROR(
          AddContext(Select(programs[p], micro), absl::StrCat("program ", programs[p].name)));
    }
    RETURN_IF_ERROR(LowerAll());
    for (const Source& source : sources_) AddVariables(source);
    for (Source& source : sources_) RETURN_IF_ERROR(Schedule(&source));
    // Programs run one at a time, so their bytes overlap above the variables.
    for (Source& source : sources_) {
      RETURN_IF_ERROR(AddContext(Place(&source), absl::StrCat("program ", source.name)));
    }
    RETURN_IF_ERROR(CheckMemory());
    plan_.set_digest(HashText(StableHash(plan_.SerializeAsString())));
    PhaseEnds("digest");
    return std::move(plan_);
  }

 private:
  // A program on its way. `tasks` and `representative_program` are of the representatives.
  struct Source {
    std::string name;
    const Graph* graph;
    Grid grid;
    SbpAssignment assignment;
    TaskGraph tasks;
    plan::Program representative_program;
    std::vector<int32_t> actor_of;  // by task
  };

  absl::Status Select(const ProgramGraph& program, int64_t micro_batches);
  absl::Status LowerAll();
  void AddVariables(const Source& source);
  absl::Status Schedule(Source* source);
  absl::Status Place(Source* source);
  absl::Status Expand(Source* source, const Placed& placed);
  absl::Status Predict(plan::Program* program);
  absl::Status Explain(const Source& source, const TaskGraph& tasks,
                       absl::Span<const int32_t> actor_of, const Placed& placed);
  absl::Status CheckMemory() const;
  bool IsWanted(int32_t device) const {
    return !options_.representatives_only || RepresentativeOf(device) == device;
  }
  // Of a device of the plan; those that are not of the mesh stand for themselves.
  int32_t RepresentativeOf(int32_t device) const {
    return device < classes_->num_devices() ? classes_->representative(device) : device;
  }
  void PhaseEnds(absl::string_view phase) const {
    if (options_.phase_end) options_.phase_end(phase);
  }

  const CompileOptions& options_;
  const Machine machine_;
  BoxingPlanner planner_;
  Explanation* explanation_;
  VariableLayouts layouts_;
  std::vector<Source> sources_;
  std::optional<DeviceClasses> classes_;  // of all programs
  std::map<std::string, int32_t> variable_index_;
  plan::Plan plan_;
};

absl::Status Compiler::Select(const ProgramGraph& program, int64_t micro_batches) {
  RETURN_IF_ERROR(program.graph->status());
  Grid grid(options_.mesh, micro_batches);
  ASSIGN_OR_RETURN(SbpAssignment assignment,
                   SelectSbp(*program.graph, grid, &planner_, machine_, &layouts_));
  // Sampling one sequence on data=2 splits nothing and means to; a first program does not.
  if (sources_.empty()) {
    for (const std::string& warning : assignment.warnings) SLUICE_LOG(WARNING) << warning;
  }
  sources_.push_back(
      {program.name, program.graph, std::move(grid), std::move(assignment), TaskGraph(), {}, {}});
  PhaseEnds("select");
  return absl::OkStatus();
}

absl::Status Compiler::LowerAll() {
  for (Source& source : sources_) {
    auto tasks =
        Lower(*source.graph, source.grid, source.assignment, &planner_, machine_, *classes_);
    RETURN_IF_ERROR(AddContext(tasks.status(), absl::StrCat("program ", source.name)));
    source.tasks = *std::move(tasks);
  }
  PhaseEnds("lower");
  return absl::OkStatus();
}

absl::Status Compiler::Schedule(Source* source) {
  ScheduleOptions schedule;
  schedule.script_length = options_.script_length;
  schedule.outline =
      options_.representatives_only || classes_->num_classes() < classes_->num_devices();
  source->representative_program =
      BuildProgram(source->name, source->tasks, source->grid, schedule, &source->actor_of);
  if (NeedsTransfers(plan_)) {
    RETURN_IF_ERROR(StageTransfers(plan_, machine_, &source->representative_program));
  }
  PhaseEnds("schedule");
  return absl::OkStatus();
}

void Compiler::AddVariables(const Source& source) {
  const Graph& graph = *source.graph;
  const Grid& grid = source.grid;
  for (NodeId id : graph.variables()) {
    const Node& node = graph.node(id);
    if (!variable_index_.emplace(node.name, plan_.variables_size()).second) continue;
    const TensorInfo& info = graph.tensor(node.outputs[0]);
    const NdSbp& sbp = source.assignment.produced[node.outputs[0]];
    const int32_t stage = std::max(node.stage, 0);
    plan::Variable* variable = plan_.add_variables();
    variable->set_name(node.name);
    variable->set_init(PrintAttributes(node.attributes));
    variable->set_dtype(static_cast<int32_t>(info.type.dtype));
    for (int64_t extent : info.type.shape) variable->add_shape(extent);
    variable->set_layout(absl::StrCat("stage ", stage, ", ", grid.ToString(sbp)));
    if (explanation_ != nullptr) {
      explanation_->variables.push_back({node.name, ToString(info.type), grid.ToString(sbp), stage,
                                         graph.state_of().count(node.outputs[0]) > 0});
    }
    for (int64_t i = 0; i < grid.stage(stage).num_devices(); ++i) {
      const int32_t d = grid.DeviceIndex(stage, i);
      if (!IsWanted(d)) continue;
      const Shard shard = grid.ShardAt(sbp, info.type, stage, i);
      plan::Device* device = plan_.mutable_devices(d);
      plan::VariableShard* added = variable->add_shards();
      added->set_device(d);
      *added->mutable_shard() = ShardToProto(shard);
      added->set_offset(device->variable_bytes());
      device->set_variable_bytes(
          AlignUp(device->variable_bytes() + shard.NumBytes(), PackingOptions().alignment));
    }
  }
}

absl::Status Compiler::Place(Source* source) {
  std::vector<int64_t> base;
  for (int d = 0; d < plan_.devices_size(); ++d) {
    base.push_back(plan_.devices(RepresentativeOf(d)).variable_bytes());
  }
  ASSIGN_OR_RETURN(const Placed placed,
                   PlaceProgram(&source->representative_program, base, options_.phase_end));
  for (int d = 0; d < plan_.devices_size(); ++d) {
    plan::Device* device = plan_.mutable_devices(d);
    const PackedDevice& packed = placed.devices[RepresentativeOf(d)];
    device->set_variable_bytes(base[d]);
    device->set_memory_bytes(std::max(device->memory_bytes(), base[d] + packed.packed));
  }
  return Expand(source, placed);
}

// The program that the plan holds.
absl::Status Compiler::Expand(Source* source, const Placed& placed) {
  plan::Program* program = plan_.add_programs();
  if (options_.representatives_only || classes_->num_classes() == classes_->num_devices()) {
    program->Swap(&source->representative_program);
    RETURN_IF_ERROR(Predict(program));
    return Explain(*source, source->tasks, source->actor_of, placed);
  }
  ASSIGN_OR_RETURN(const TaskGraph tasks,
                   Lower(*source->graph, source->grid, source->assignment, &planner_, machine_));
  PhaseEnds("lower all");
  ScheduleOptions schedule;
  schedule.script_length = options_.script_length;
  std::vector<int32_t> actor_of;
  *program = BuildProgram(source->name, tasks, source->grid, schedule, &actor_of);
  PhaseEnds("schedule all");
  RETURN_IF_ERROR(ExpandPlaced(source->representative_program, placed, classes_->representatives(),
                               program, options_.phase_end));
  RETURN_IF_ERROR(Predict(program));
  return Explain(*source, tasks, actor_of, placed);
}

// Of the last program of the plan: the tasks and their actors.
absl::Status Compiler::Explain(const Source& source, const TaskGraph& tasks,
                               absl::Span<const int32_t> actor_of, const Placed& placed) {
  if (explanation_ == nullptr) return absl::OkStatus();
  const plan::Program& program = *plan_.programs().rbegin();
  explanation_->programs.push_back(
      ExplainChoices(*source.graph, source.grid, source.assignment, tasks, actor_of, program));
  return ExplainPlacement(plan_, program, placed.devices, *classes_, explanation_->variables,
                          &explanation_->programs.back());
}

// What was placed were representatives, each with cores of its own; devices of a process share
// them.
absl::Status Compiler::Predict(plan::Program* program) {
  if (machine_.cores == 0 || options_.representatives_only ||
      DevicesOfARank(options_.mesh) < plan_.devices_size()) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const WorkerClockResult run,
                   PredictSteps(*program, plan_.devices_size(), machine_));
  program->set_predicted_nanoseconds(run.step_nanoseconds);
  PhaseEnds("predict");
  return absl::OkStatus();
}

absl::Status Compiler::CheckMemory() const {
  if (options_.memory_limit <= 0) return absl::OkStatus();
  for (int d = 0; d < plan_.devices_size(); ++d) {
    if (plan_.devices(d).memory_bytes() > options_.memory_limit) {
      return absl::ResourceExhaustedError(
          absl::StrCat("device ", d, ": expected at most ", options_.memory_limit,
                       " bytes, the plan needs ", plan_.devices(d).memory_bytes(), ", of them ",
                       plan_.devices(d).variable_bytes(), " for variables"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<plan::Plan> Compile(absl::Span<const ProgramGraph> programs,
                                   const CompileOptions& options, Explanation* explanation) {
  if (options.micro_batches < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("micro_batches: expected at least 1, got ", options.micro_batches));
  }
  return Compiler(options, explanation).Run(programs);
}

}  // namespace sluice
