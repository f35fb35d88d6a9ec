#include "framework/testing/planted_bugs.h"

#include "absl/strings/str_cat.h"

namespace sluice {

absl::Status ChangeInstructions(absl::string_view what, plan::Plan* plan,
                                const InstructionChange& change) {
  plan::Program* program = plan->mutable_programs(0);
  bool changed = false;
  for (plan::Actor& actor : *program->mutable_actors()) {
    const int32_t device = program->streams(actor.stream()).device();
    for (plan::Instruction& instruction : *actor.mutable_script()) {
      changed |= change(device, &instruction);
    }
  }
  if (changed) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("nothing to plant a bug in: ", what));
}

namespace {

// Visits the regions that sum the tensor's partial values.
absl::Status ChangeSums(
    absl::string_view tensor, plan::Plan* plan,
    const std::function<void(int32_t device, const plan::Instruction&, plan::Region*)>& change) {
  return ChangeInstructions(tensor, plan, [&](int32_t device, plan::Instruction* instruction) {
    if (instruction->kind() != plan::INSTRUCTION_FOLD || instruction->scope() != tensor)
      return false;
    bool changed = false;
    for (plan::Region& region : *instruction->mutable_regions()) {
      if (region.sources_size() < 2) continue;
      change(device, *instruction, &region);
      changed = true;
    }
    return changed;
  });
}

}  // namespace

absl::Status DropReduction(absl::string_view tensor, plan::Plan* plan) {
  const plan::Program& program = plan->programs(0);
  return ChangeSums(tensor, plan,
                    [&](int32_t device, const plan::Instruction& box, plan::Region* region) {
                      int own = 0;
                      for (int i = 0; i < region->sources_size(); ++i) {
                        const plan::Operand& input = box.inputs(region->sources(i));
                        if (program.registers(input.register_()).device() == device) own = i;
                      }
                      plan::Region alone = *region;
                      alone.clear_sources(), alone.clear_fold();
                      alone.clear_source_offsets(), alone.clear_source_strides();
                      alone.add_sources(region->sources(own));
                      alone.add_fold(0);
                      alone.add_source_offsets(region->source_offsets(own));
                      *alone.add_source_strides() = region->source_strides(own);
                      *region = alone;
                    });
}

absl::Status CountTwice(absl::string_view tensor, plan::Plan* plan) {
  return ChangeSums(tensor, plan, [](int32_t, const plan::Instruction&, plan::Region* region) {
    const int terms = region->fold_size();
    for (int i = 0; i < terms; ++i) region->add_fold(region->fold(i));
    region->add_fold(-1);
  });
}

}  // namespace sluice
