#include "models/gpt/parity_bugs.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/actor/virtual_clock.h"
#include "framework/attributes/attributes.h"
#include "framework/base/status.h"
#include "framework/compiler/memory.h"
#include "framework/tensor/shape.h"
#include "framework/testing/planted_bugs.h"

namespace sluice {
absl::Status ShareDropoutMask(plan::Plan* plan) {
  return ChangeInstructions("dropout", plan, [](int32_t, plan::Instruction* instruction) {
    if (!absl::StartsWith(instruction->op(), "dropout")) return false;
    bool changed = false;
    for (auto* operands : {instruction->mutable_inputs(), instruction->mutable_outputs()}) {
      for (plan::Operand& operand : *operands) {
        plan::Shard* shard = operand.mutable_shard();
        if (shard->offset_size() == 0 || shard->offset(0) == 0) continue;
        shard->set_offset(0, 0);
        changed = true;
      }
    }
    return changed;
  });
}

absl::Status DivideByLocalBatch(int64_t devices, plan::Plan* plan) {
  // Samples and positions that each device has, from its part of the labels.
  std::vector<int64_t> local(plan->devices_size(), 0);
  int64_t whole = 0;
  RETURN_IF_ERROR(
      ChangeInstructions("labels", plan, [&](int32_t device, plan::Instruction* instruction) {
        if (instruction->op() != "ce_pick") return false;
        const plan::Shard& shard = instruction->outputs(0).shard();
        local[device] = shard.local(0) * shard.local(1);
        whole = shard.logical(0) * shard.logical(1);
        return true;
      }));
  absl::Status status;
  RETURN_IF_ERROR(ChangeInstructions(
      "the division by the batch", plan, [&](int32_t device, plan::Instruction* scale) {
        if (scale->op() != "scale") return false;
        const auto attributes = ParseAttributes<ScaleAttributes>(scale->attributes());
        if (!attributes.ok()) status = attributes.status();
        if (!attributes.ok() || attributes->factor != 1.0 / static_cast<double>(whole))
          return false;
        scale->set_attributes(
            PrintAttributes(ScaleAttributes{1.0 / static_cast<double>(local[device] * devices)}));
        return true;
      }));
  return status;
}

namespace {

// After a change of scripts or registers: order, bytes and passes anew.
absl::Status PlanAgain(plan::Plan* plan) {
  plan::Program* program = plan->mutable_programs(0);
  RETURN_IF_ERROR(RecordOrder(program).status());
  PackingOptions packing;
  for (const plan::Device& device : plan->devices())
    packing.base.push_back(device.variable_bytes());
  ASSIGN_OR_RETURN(const Packing packed, PackMemory(program, packing));
  for (int d = 0; d < plan->devices_size(); ++d) {
    plan::Device* device = plan->mutable_devices(d);
    device->set_memory_bytes(device->variable_bytes() + packed.devices[d].packed);
  }
  return absl::OkStatus();
}

// A copy of the operand's shard into another register.
plan::Instruction CopyInto(const plan::Operand& from, int32_t reg) {
  plan::Instruction copy;
  copy.set_kind(plan::INSTRUCTION_FOLD);
  copy.set_scope("a stale copy");
  copy.set_nanoseconds(1000);
  plan::Operand* input = copy.add_inputs();
  *input = from;
  input->set_updates(false);
  plan::Operand* output = copy.add_outputs();
  *output = from;
  output->set_updates(false);
  output->set_register_(reg);
  const plan::Shard& shard = from.shard();
  const Shape local(absl::MakeConstSpan(shard.local()));
  plan::Region* region = copy.add_regions();
  plan::Strides* strides = region->add_source_strides();
  for (int d = 0; d < shard.local_size(); ++d) {
    region->add_begin(shard.offset(d));
    region->add_end(shard.offset(d) + shard.local(d));
    region->add_strides(local.Strides()[d]);
    strides->add_values(local.Strides()[d]);
  }
  region->add_sources(0);
  region->add_fold(0);
  region->add_source_offsets(0);
  return copy;
}

// The register of the stale copy on one device; its storage is a variable of its own.
int32_t AddStaleRegister(const plan::Register& weight, const std::string& name,
                         plan::Program* program) {
  plan::Register stale = weight;
  stale.set_name(name);
  stale.set_variable(name);
  *program->add_registers() = stale;
  return program->registers_size() - 1;
}

void ReadStale(int32_t weight, int32_t stale, int32_t updater, plan::Program* program) {
  for (int a = 0; a < program->actors_size(); ++a) {
    if (a == updater) continue;
    for (plan::Instruction& instruction : *program->mutable_actors(a)->mutable_script()) {
      for (plan::Operand& input : *instruction.mutable_inputs()) {
        if (input.storage_case() != plan::Operand::kRegister || input.register_() != weight)
          continue;
        input.set_register_(stale);
      }
    }
  }
}

}  // namespace

absl::Status UseStaleWeight(absl::string_view variable, plan::Plan* plan) {
  const std::string name = absl::StrCat(variable, ".stale");
  plan::Program* program = plan->mutable_programs(0);
  const auto found = std::find_if(plan->variables().begin(), plan->variables().end(),
                                  [&](const plan::Variable& v) { return v.name() == variable; });
  if (found == plan->variables().end()) return absl::NotFoundError(variable);
  plan::Variable copy = *found;  // with the same first value, whatever its name: see the test
  copy.set_name(name);
  for (plan::VariableShard& shard : *copy.mutable_shards()) {
    plan::Device* device = plan->mutable_devices(shard.device());
    shard.set_offset(device->variable_bytes());
    int64_t bytes = sizeof(float);
    for (int64_t extent : shard.shard().local()) bytes *= extent;
    device->set_variable_bytes(device->variable_bytes() + (bytes + 63) / 64 * 64);
  }
  *plan->add_variables() = copy;
  const int registers = program->registers_size();
  for (int32_t r = 0; r < registers; ++r) {
    if (program->registers(r).variable() != variable) continue;
    const int32_t stale = AddStaleRegister(program->registers(r), name, program);
    const int32_t updater = program->registers(r).producer();
    plan::Actor* actor = program->mutable_actors(updater);
    for (int i = 0; i < actor->script_size(); ++i) {
      const auto& inputs = actor->script(i).inputs();
      const auto at = std::find_if(inputs.begin(), inputs.end(), [&](const plan::Operand& input) {
        return input.storage_case() == plan::Operand::kRegister && input.register_() == r &&
               input.updates();
      });
      if (at == inputs.end()) continue;
      *actor->add_script() = CopyInto(*at, stale);
      for (int j = actor->script_size() - 1; j > i; --j) {
        actor->mutable_script()->SwapElements(j, j - 1);
      }
      break;
    }
    ReadStale(r, stale, updater, program);
  }
  return PlanAgain(plan);
}

}  // namespace sluice
