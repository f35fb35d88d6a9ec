#include "framework/plan/takes.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

bool SameStorage(const plan::Operand& x, const plan::Operand& y) {
  if (x.storage_case() != y.storage_case()) return false;
  return x.storage_case() == plan::Operand::kRegister ? x.register_() == y.register_()
                                                      : x.temporary() == y.temporary();
}

// Whether the register has a token for each firing of actor a, and a slot for no token but its own.
bool HasATokenAFiring(const ProgramIndex& index, int a, const ProgramIndex::Register& reg) {
  const ProgramIndex::Ring& ring = index.ring(reg.ring);
  return reg.producer >= 0 && reg.initial == 0 && reg.every == 1 && reg.alone &&
         ring.explicit_ring < 0 && reg.tokens == index.actor(a).firings &&
         reg.tokens % ring.slots == 0;
}

}  // namespace

int64_t StorageBytes(const plan::Program& program, const plan::Operand& x) {
  return x.storage_case() == plan::Operand::kTemporary ? program.temporaries(x.temporary()).bytes()
                                                       : program.registers(x.register_()).bytes();
}

int32_t StorageSlots(const ProgramIndex& index, const plan::Operand& x) {
  if (x.storage_case() == plan::Operand::kTemporary) return 1;
  return index.ring(index.reg(x.register_()).ring).slots;
}

absl::Status CheckTakes(const ProgramIndex& index, int a, int i, int output, int64_t input) {
  const plan::Instruction& x = index.instruction(a, i);
  const auto refuse = [&](const std::string& why) {
    return absl::InvalidArgumentError(
        absl::StrCat("program \"", index.program().name(), "\": ", index.Describe(a, 0, i),
                     ": output ", output, " cannot take the bytes of input ", input, ": ", why));
  };
  if (x.kind() != plan::INSTRUCTION_KERNEL) return refuse("expected a kernel");
  if (input < 0 || input >= x.inputs_size()) {
    return refuse(absl::StrCat("expected one of ", x.inputs_size(), " inputs"));
  }
  const plan::Operand &from = x.inputs(static_cast<int>(input)), &to = x.outputs(output);
  for (const plan::Operand* operand : {&from, &to}) {
    const bool whole = operand->storage_case() != plan::Operand::STORAGE_NOT_SET &&
                       operand->offset() == 0 && !operand->updates();
    if (!whole) return refuse("expected the whole of a register or temporary, and no update");
  }
  int uses = 0;
  for (const auto* operands : {&x.inputs(), &x.outputs()}) {
    for (const plan::Operand& operand : *operands) uses += SameStorage(operand, from) ? 1 : 0;
  }
  if (uses != 1) return refuse("expected an input that is no other operand");
  const int64_t bytes = StorageBytes(index.program(), from);
  if (const int64_t got = StorageBytes(index.program(), to); got != bytes) {
    return refuse(absl::StrCat("expected as many bytes, got ", got, " for ", bytes));
  }
  const int32_t slots = StorageSlots(index, from);
  if (const int32_t got = StorageSlots(index, to); got != slots) {
    return refuse(absl::StrCat("expected as many slots, got ", got, " for ", slots));
  }
  for (const plan::Operand* operand : {&from, &to}) {
    if (operand->storage_case() != plan::Operand::kRegister) continue;
    const ProgramIndex::Register& reg = index.reg(operand->register_());
    const plan::Register& planned = index.program().registers(operand->register_());
    if (planned.device() != index.device_of(a)) return refuse("expected one device");
    if (!planned.variable().empty() || !HasATokenAFiring(index, a, reg)) {
      return refuse(absl::StrCat("expected a token a firing, and no state, of ",
                                 index.RegisterName(operand->register_())));
    }
    if (operand == &to && (reg.producer != a || reg.first_write != i || reg.last_write != i)) {
      return refuse("expected an output that nothing else writes");
    }
  }
  return absl::OkStatus();
}

}  // namespace sluice
