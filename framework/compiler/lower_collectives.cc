// Boxing phases that NCCL does: an instruction on each device of a group, on its stream of
// collectives, whatever steps the phase has by other recipes. The members of a group have one
// number, by which the order, the proof and the clock take them as one.
//
// Members may be of several ranks. A device that represents its stage has the instruction alone,
// and waits for nothing but what it waits for itself; its peers are devices of the same stage,
// which wait for the same, so what is proven of the representative holds of a group. A rank has the
// instructions of its own devices, and all devices of a stage have them in one order.
#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "framework/compiler/boxing_writes.h"
#include "framework/compiler/lower.h"
#include "framework/plan/validate_collectives.h"

namespace sluice {
namespace {

bool AreCards(const Mesh& mesh) {
  return std::all_of(mesh.devices().begin(), mesh.devices().end(),
                     [](DeviceId id) { return id.kind == DeviceKind::kCuda; });
}

}  // namespace

std::optional<PhaseCollective> Boxer::FindCollective(const PhaseStep& step) const {
  const BoxingPhase& phase = step.symbolic();
  // What a boxing has brought to hosts goes on there.
  if (!collectives_.nccl || phase.axis < 0 || step.on_hosts || !AreCards(phase.to.mesh)) {
    return std::nullopt;
  }
  std::optional<PhaseCollective> found = CollectiveOf(phase, step.shape);
  if (!found.has_value()) return std::nullopt;
  // A maximum of NaN is NaN (tensor/shard.h), and NCCL may leave it out.
  if (found->reduction != Reduction::kNone && found->reduction != Reduction::kSum) {
    return std::nullopt;
  }
  const bool rounds = graph_.tensor(step.at.tensor).type.dtype == DType::kBF16 &&
                      found->reduction == Reduction::kSum &&
                      phase.to.mesh.axes()[phase.axis].size > 2;
  if (rounds && !collectives_.bf16_sums) return std::nullopt;
  return found;
}

Boxer::Values Boxer::EmitCollective(const PhaseStep& step, const PhaseCollective& collective,
                                    const Values& held, const Values& made) {
  ++sequence_;
  const Values outputs = OutputsOf(step, made);
  for (ValueId v : held) tasks_->values[tasks_->values[v].root].leaves_script = true;
  for (ValueId v : outputs) tasks_->values[v].leaves_script = true;
  const DType dtype = graph_.tensor(step.at.tensor).type.dtype;
  // As the recipe that the phase was chosen by.
  int64_t nanoseconds = 0, crossing = 0;
  for (const PhaseStepLoad& load : step.boxing.loads[step.phase_index].steps) {
    nanoseconds += PhaseStepNanoseconds(load, dtype, machine_);
    crossing += load.near + load.far;
  }
  std::map<std::vector<int64_t>, std::vector<size_t>> groups;  // whom of them there is a task for
  for (size_t m = 0; m < outputs.size(); ++m) {
    const int32_t place = classes_.members(step.to_stage)[m];
    groups[MembersOfCollective(step.symbolic(), step.shape, place)].push_back(m);
  }
  for (const auto& [places, members] : groups) {
    const int32_t number = ++tasks_->collectives;
    std::vector<int32_t> devices;
    for (int64_t place : places) devices.push_back(grid_.DeviceIndex(step.to_stage, place));
    for (const size_t m : members) {
      Task task = FoldTask(step.at, outputs[m], step.phase);
      task.kind = plan::INSTRUCTION_COLLECTIVE;
      task.op = collective.op;
      task.attributes = CollectiveAttributes(devices);
      task.stream = plan::STREAM_COLLECTIVE;
      task.position.second = sequence_;
      task.firings = step.tokens;
      task.reduction = collective.reduction;
      task.collective = number;
      task.inputs = {{held[m], false}};
      task.nanoseconds = nanoseconds;
      task.wire_bytes = crossing * SizeOf(dtype);
      task.bytes =
          tasks_->values[held[m]].shard.NumBytes() + tasks_->values[outputs[m]].shard.NumBytes();
      Add(std::move(task));
    }
  }
  return outputs;
}

}  // namespace sluice
