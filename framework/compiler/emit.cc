#include "framework/compiler/emit.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/compiler/lower.h"
#include "framework/compiler/pulls.h"
#include "framework/compiler/transfers.h"
#include "framework/sim/prediction.h"

namespace sluice {
namespace {

// Representatives were placed as if each had cores of its own; where all devices lie in one
// process, whose cores a calibrated machine knows, they share them.
absl::Status PredictSharedCores(const Machine& machine, const CompileOptions& options,
                                plan::Program* program) {
  const int64_t devices = options.mesh.num_devices();
  if (machine.cores == 0 || options.representatives_only ||
      DevicesOfARank(options.mesh) < devices) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const WorkerClockResult run,
                   PredictSteps(*program, static_cast<int>(devices), machine));
  program->set_predicted_nanoseconds(run.step_nanoseconds);
  if (options.phase_end) options.phase_end("predict");
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckCount(absl::string_view what, int64_t count) {
  constexpr int64_t kMost = int64_t{1} << 20;  // firings of a step, stages: all are of int32_t
  if (count >= 1 && count <= kMost) return absl::OkStatus();
  if (count < 1) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": expected at least 1, got ", count));
  }
  return absl::InvalidArgumentError(
      absl::StrCat(what, ": expected at most ", kMost, ", got ", count));
}

absl::Status CheckOptions(const CompileOptions& options) {
  RETURN_IF_ERROR(CheckCount("micro_batches", options.micro_batches));
  RETURN_IF_ERROR(CheckCount("chunks", options.chunks));
  if (options.rank < 0 || options.rank >= options.ranks) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank: expected one of 0 to ", options.ranks - 1, ", got ", options.rank));
  }
  for (DeviceId id : options.mesh.devices()) {
    if (id.rank >= options.ranks && !options.representatives_only) {
      return absl::InvalidArgumentError(absl::StrCat("mesh: expected devices of ranks 0 to ",
                                                     options.ranks - 1, ", got one of ", id.rank));
    }
    if (IsHost(id.kind) || options.ranks == 1) continue;
    return absl::UnimplementedError(absl::StrCat("mesh: devices of kind ", DeviceKindName(id.kind),
                                                 " are of one rank as yet, got several"));
  }
  return absl::OkStatus();
}

int64_t DevicesOfARank(const Mesh& mesh) {
  return std::count_if(mesh.devices().begin(), mesh.devices().end(),
                       [&](DeviceId id) { return id.rank == mesh.devices()[0].rank; });
}

Compilation EmptyCompilation(const CompileOptions& options) {
  plan::Plan plan;
  for (DeviceId id : options.mesh.devices()) {
    plan::Device* device = plan.add_devices();
    device->set_rank(id.rank);
    device->set_local(id.local);
    device->set_kind(static_cast<plan::DeviceKind>(id.kind));
  }
  plan.set_representatives_only(options.representatives_only);
  plan.set_rank(options.rank);
  if (NeedsTransfers(plan)) AddHostDevices(&plan);
  const Grid grid(options.mesh, 1, options.chunks);
  DeviceClasses classes = NeedsTransfers(plan) ? DeviceClasses::Singles(grid) : DeviceClasses(grid);
  return {std::move(plan), options.mesh, std::move(classes), {}};
}

ScheduleOptions ScheduleOptionsOf(const CompileOptions& options, const DeviceClasses& classes) {
  ScheduleOptions schedule;
  schedule.script_length = options.script_length;
  schedule.numbers = options.ranks > 1;
  schedule.outline = options.representatives_only || schedule.numbers ||
                     classes.num_classes() < classes.num_devices();
  return schedule;
}

std::vector<int64_t> BytesOfVariables(const plan::Plan& plan, const DeviceClasses& classes) {
  std::vector<int64_t> bytes;
  for (int d = 0; d < plan.devices_size(); ++d) {
    bytes.push_back(plan.devices(classes.representative(d)).variable_bytes());
  }
  return bytes;
}

absl::Status Observe(const CompileOptions& options, absl::string_view program,
                     const Station& station) {
  return options.observe ? options.observe(program, station) : absl::OkStatus();
}

absl::StatusOr<plan::Program> EmitProgram(Placed placed, const DeviceClasses& classes,
                                          const Machine& machine, const CompileOptions& options,
                                          BoxingPlanner* planner, CompiledProgram* program) {
  const bool several_ranks = options.ranks > 1;
  plan::Program whole;
  if (options.representatives_only ||
      (!several_ranks && classes.num_classes() == classes.num_devices())) {
    whole = std::move(placed.program);
  } else {
    const auto phase_ends = [&](absl::string_view phase) {
      if (options.phase_end) options.phase_end(phase);
    };
    ASSIGN_OR_RETURN(program->tasks,
                     Lower(*program->graph, program->grid, program->assignment, planner, machine,
                           DeviceClasses::OfRank(program->grid, options.rank), options.stop));
    phase_ends("lower rank");
    RETURN_IF_ERROR(Observe(options, program->name, &program->tasks));
    ScheduleOptions schedule;
    schedule.script_length = options.script_length;
    schedule.numbers = several_ranks;
    Schedule own = BuildSchedule(program->name, program->tasks, program->grid, schedule);
    program->actor_of = own.actor_of;
    if (!options.reasons) program->tasks = TaskGraph();  // of a large job as much as the plan
    own = AddPulls(std::move(own));
    phase_ends("schedule rank");
    RETURN_IF_ERROR(CheckStop(options.stop));
    RETURN_IF_ERROR(Observe(options, program->name, &own));
    ASSIGN_OR_RETURN(RankProgram expanded,
                     ExpandPlaced(placed, classes.representatives(), std::move(own),
                                  options.phase_end, options.stop));
    program->staging = std::move(expanded.staging);
    whole = std::move(expanded.program);
  }
  RETURN_IF_ERROR(PredictSharedCores(machine, options, &whole));
  return whole;
}

absl::Status CountMemory(absl::Span<const int64_t> base, int64_t limit, Compilation* compilation) {
  plan::Plan& plan = compilation->plan;
  for (int d = 0; d < plan.devices_size(); ++d) {
    int64_t packed = 0;
    for (const CompiledProgram& program : compilation->programs) {
      const int64_t staging = program.staging.empty() ? 0 : program.staging[d];
      packed =
          std::max(packed, program.packed[compilation->classes.representative(d)].packed + staging);
    }
    plan.mutable_devices(d)->set_variable_bytes(base[d]);
    plan.mutable_devices(d)->set_memory_bytes(base[d] + packed);
  }
  for (int d = 0; limit > 0 && d < plan.devices_size(); ++d) {
    if (plan.devices(d).memory_bytes() <= limit) continue;
    return absl::ResourceExhaustedError(
        absl::StrCat("device ", d, ": expected at most ", limit, " bytes, the plan needs ",
                     plan.devices(d).memory_bytes(), ", of them ", plan.devices(d).variable_bytes(),
                     " for variables"));
  }
  return absl::OkStatus();
}

}  // namespace sluice
