#include "framework/compiler/compile.h"

#include <algorithm>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/hash.h"
#include "framework/base/log.h"
#include "framework/base/status.h"
#include "framework/compiler/explain.h"
#include "framework/compiler/grid.h"
#include "framework/compiler/lower.h"
#include "framework/compiler/place.h"
#include "framework/compiler/schedule.h"
#include "framework/compiler/select_sbp.h"
#include "framework/plan/part_proto.h"

namespace sluice {
namespace {

constexpr int64_t kAlignment = 64;

int64_t AlignUp(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

class Compiler {
 public:
  Compiler(const CompileOptions& options, Explanation* explanation)
      : options_(options), planner_(options.machine), explanation_(explanation) {
    for (DeviceId id : options.mesh.devices()) {
      plan::Device* device = plan_.add_devices();
      device->set_rank(id.rank);
      device->set_local(id.local);
    }
    if (explanation_ != nullptr) ExplainDevices(options.mesh, explanation_);
  }

  absl::StatusOr<plan::Plan> Run(absl::Span<const ProgramGraph> programs) {
    for (size_t p = 0; p < programs.size(); ++p) {
      RETURN_IF_ERROR(Annotate(ToProgram(programs[p], p == 0 ? options_.micro_batches : 1),
                               absl::StrCat("program ", programs[p].name)));
    }
    // Programs run one at a time, so their bytes overlap above the variables.
    for (int p = 0; p < plan_.programs_size(); ++p) {
      RETURN_IF_ERROR(Annotate(Place(p), absl::StrCat("program ", plan_.programs(p).name())));
    }
    RETURN_IF_ERROR(CheckMemory());
    plan_.set_digest(HashText(StableHash(plan_.SerializeAsString())));
    PhaseEnds("digest");
    return std::move(plan_);
  }

 private:
  // Graph -> SbpAssignment -> TaskGraph -> scripts and registers.
  absl::Status ToProgram(const ProgramGraph& source, int64_t micro_batches) {
    const Graph& graph = *source.graph;
    RETURN_IF_ERROR(graph.status());
    const Grid grid(options_.mesh, micro_batches);
    ASSIGN_OR_RETURN(const SbpAssignment assignment,
                     SelectSbp(graph, grid, &planner_, options_.machine, &layouts_));
    PhaseEnds("select");
    // Sampling one sequence on data=2 splits nothing and means to; a first program does not.
    if (plan_.programs_size() == 0) {
      for (const std::string& warning : assignment.warnings) SLUICE_LOG(WARNING) << warning;
    }
    ASSIGN_OR_RETURN(const TaskGraph tasks,
                     Lower(graph, grid, assignment, &planner_, options_.machine));
    PhaseEnds("lower");
    AddVariables(graph, grid, assignment);
    ScheduleOptions schedule;
    schedule.script_length = options_.script_length;
    std::vector<int32_t> actor_of;  // by task
    *plan_.add_programs() = BuildProgram(source.name, tasks, grid, schedule, &actor_of);
    PhaseEnds("schedule");
    if (explanation_ != nullptr) {
      explanation_->programs.push_back(ExplainChoices(graph, grid, assignment, tasks, actor_of,
                                                      plan_.programs(plan_.programs_size() - 1)));
    }
    return absl::OkStatus();
  }

  void AddVariables(const Graph& graph, const Grid& grid, const SbpAssignment& assignment);
  absl::Status Place(int program);
  absl::Status CheckMemory() const;
  void PhaseEnds(absl::string_view phase) const {
    if (options_.phase_end) options_.phase_end(phase);
  }

  const CompileOptions& options_;
  BoxingPlanner planner_;
  Explanation* explanation_;
  VariableLayouts layouts_;
  std::map<std::string, int32_t> variable_index_;
  plan::Plan plan_;
};

void Compiler::AddVariables(const Graph& graph, const Grid& grid, const SbpAssignment& assignment) {
  for (NodeId id : graph.variables()) {
    const Node& node = graph.node(id);
    if (!variable_index_.emplace(node.name, plan_.variables_size()).second) continue;
    const TensorInfo& info = graph.tensor(node.outputs[0]);
    const NdSbp& sbp = assignment.made[node.outputs[0]];
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
    for (int64_t d = 0; d < grid.stage(stage).num_devices(); ++d) {
      const Part part = grid.PartAt(sbp, info.type, stage, d);
      plan::Device* device = plan_.mutable_devices(grid.DeviceIndex(stage, d));
      plan::VariablePart* added = variable->add_parts();
      added->set_device(grid.DeviceIndex(stage, d));
      *added->mutable_part() = PartToProto(part);
      added->set_offset(device->variable_bytes());
      device->set_variable_bytes(AlignUp(device->variable_bytes() + part.NumBytes()));
    }
  }
}

absl::Status Compiler::Place(int program) {
  std::vector<int64_t> base;
  for (const plan::Device& device : plan_.devices()) base.push_back(device.variable_bytes());
  ASSIGN_OR_RETURN(const Placed placed,
                   PlaceProgram(plan_.mutable_programs(program), base, options_.phase_end));
  for (int d = 0; d < plan_.devices_size(); ++d) {
    plan::Device* device = plan_.mutable_devices(d);
    device->set_memory_bytes(
        std::max(device->memory_bytes(), device->variable_bytes() + placed.devices[d].packed));
  }
  if (explanation_ == nullptr) return absl::OkStatus();
  return ExplainPlacement(plan_, plan_.programs(program), placed, explanation_->variables,
                          &explanation_->programs[program]);
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
