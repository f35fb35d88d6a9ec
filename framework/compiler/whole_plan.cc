#include "framework/compiler/whole_plan.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/compiler/lower.h"
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

absl::Status CheckOptions(const CompileOptions& options) {
  if (options.micro_batches < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("micro_batches: expected at least 1, got ", options.micro_batches));
  }
  if (options.chunks < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("chunks: expected at least 1, got ", options.chunks));
  }
  return absl::OkStatus();
}

int64_t DevicesOfARank(const Mesh& mesh) {
  return std::count_if(mesh.devices().begin(), mesh.devices().end(),
                       [&](DeviceId id) { return id.rank == mesh.devices()[0].rank; });
}

plan::Plan EmptyPlan(const CompileOptions& options) {
  plan::Plan plan;
  for (DeviceId id : options.mesh.devices()) {
    plan::Device* device = plan.add_devices();
    device->set_rank(id.rank);
    device->set_local(id.local);
    device->set_kind(static_cast<plan::DeviceKind>(id.kind));
  }
  plan.set_representatives_only(options.representatives_only);
  if (NeedsTransfers(plan)) AddHostDevices(&plan);
  return plan;
}

DeviceClasses ClassesFor(const plan::Plan& plan, const CompileOptions& options) {
  const Grid grid(options.mesh, 1, options.chunks);
  return NeedsTransfers(plan) ? DeviceClasses::Singles(grid) : DeviceClasses(grid);
}

ScheduleOptions ScheduleOptionsOf(const CompileOptions& options, const DeviceClasses& classes) {
  ScheduleOptions schedule;
  schedule.script_length = options.script_length;
  schedule.outline = options.representatives_only || classes.num_classes() < classes.num_devices();
  return schedule;
}

std::vector<int64_t> BytesOfVariables(const plan::Plan& plan, const DeviceClasses& classes) {
  std::vector<int64_t> bytes;
  for (int d = 0; d < plan.devices_size(); ++d) {
    bytes.push_back(plan.devices(classes.representative(d)).variable_bytes());
  }
  return bytes;
}

absl::StatusOr<plan::Program> WholeProgram(Placed placed, const DeviceClasses& classes,
                                           const Machine& machine, const CompileOptions& options,
                                           BoxingPlanner* planner, CompiledProgram* program) {
  plan::Program whole;
  if (options.representatives_only || classes.num_classes() == classes.num_devices()) {
    whole = std::move(placed.program);
  } else {
    const auto phase_ends = [&](absl::string_view phase) {
      if (options.phase_end) options.phase_end(phase);
    };
    ASSIGN_OR_RETURN(program->tasks,
                     Lower(*program->graph, program->grid, program->assignment, planner, machine));
    phase_ends("lower all");
    ScheduleOptions schedule;
    schedule.script_length = options.script_length;
    Schedule all = BuildSchedule(program->name, program->tasks, program->grid, schedule);
    program->actor_of = std::move(all.actor_of);
    phase_ends("schedule all");
    ASSIGN_OR_RETURN(whole, ExpandPlaced(placed, classes.representatives(), std::move(all.program),
                                         options.phase_end));
  }
  RETURN_IF_ERROR(PredictSharedCores(machine, options, &whole));
  return whole;
}

absl::Status CountMemory(absl::Span<const int64_t> base, int64_t limit, Compilation* compilation) {
  plan::Plan& plan = compilation->plan;
  for (int d = 0; d < plan.devices_size(); ++d) {
    int64_t packed = 0;
    for (const CompiledProgram& program : compilation->programs) {
      packed = std::max(packed, program.packed[compilation->classes.representative(d)].packed);
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
