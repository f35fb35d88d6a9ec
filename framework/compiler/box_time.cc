#include "framework/compiler/box_time.h"

#include <algorithm>

#include "framework/plan/kinds.h"

namespace sluice {
namespace {

// How many elements of a region lie in one contiguous run in every buffer that it touches.
int64_t ContiguousRunOf(const TaskRegion& region) {
  int64_t run = 1;
  for (int d = static_cast<int>(region.box.size()) - 1; d >= 0; --d) {
    bool joined = region.box[d].size() == 1 || region.strides[d] == run;
    for (const Shape& strides : region.source_strides) {
      joined &= region.box[d].size() == 1 || strides[d] == run;
    }
    if (!joined) break;
    run *= region.box[d].size();
  }
  return run;
}

}  // namespace

void SetOwnTime(const Machine& machine, int64_t element, Task* task) {
  if (task->kind != plan::INSTRUCTION_FOLD || !machine.HasKernel("fold")) {
    const absl::string_view name = InstructionKindName(task->kind);
    task->nanoseconds = machine.KernelNanoseconds(name, {task->bytes}, 0, task->bytes, false);
    task->cold_nanoseconds = machine.ColdNanoseconds(name, {task->bytes});
    return;
  }
  task->nanoseconds = machine.launch_nanoseconds;
  const auto add = [&](absl::string_view kernel, absl::Span<const int64_t> sizes, int64_t rounds) {
    const int64_t time = machine.KernelNanoseconds(kernel, sizes, 0, sizes[0], false);
    task->nanoseconds += (time - machine.launch_nanoseconds) / rounds;
    task->cold_nanoseconds += machine.ColdNanoseconds(kernel, sizes) / rounds;
  };
  for (const TaskRegion& region : task->regions) {
    const int64_t bytes = Volume(region.box) * element;
    const int64_t sources = static_cast<int64_t>(region.fold.size() + 1) / 2;
    const int64_t rounds = region.micro == 0 ? 1 : std::max<int64_t>(1, task->firings);
    if (sources == 1) {
      add("fold", {2 * bytes, ContiguousRunOf(region) * element}, rounds);
    } else {
      add("fold_many", {bytes * (sources + 1), sources}, rounds);
    }
  }
  if (task->fill_identity) add("fill", {task->bytes}, 1);
}

void SetStepTime(const Machine& machine, DType dtype, const PhaseStepLoad& load, Task* task) {
  const int64_t priced = PhaseStepNanoseconds(load, dtype, machine);
  if (!machine.HasKernel("fold")) {
    task->nanoseconds = priced;
    task->cold_nanoseconds =
        machine.ColdNanoseconds(InstructionKindName(task->kind), {task->bytes});
    return;
  }
  SetOwnTime(machine, SizeOf(dtype), task);
  // Folds are timed in one process; what comes over another link has its port.
  const bool by_link = (load.near > 0 && load.links.near != LinkKind::kProcess) ||
                       (load.far > 0 && load.links.far != LinkKind::kProcess);
  if (by_link) task->nanoseconds = std::max(task->nanoseconds, priced);
}

}  // namespace sluice
