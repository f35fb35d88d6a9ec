// Whether an instruction's output may lie where one of its inputs lay, as far as a program's
// structure says: it is what a plan's `takes` claims, and what packing looks for. Pure; any thread.
#ifndef SLUICE_FRAMEWORK_PLAN_TAKES_H_
#define SLUICE_FRAMEWORK_PLAN_TAKES_H_

#include <cstdint>

#include "absl/status/status.h"
#include "framework/plan/program_index.h"

namespace sluice {

// Of the register or temporary that an operand names; a temporary has one slot.
int64_t StorageBytes(const plan::Program& program, const plan::Operand& x);
int32_t StorageSlots(const ProgramIndex& index, const plan::Operand& x);

// InvalidArgument says why output `output` of instruction i of actor a cannot take the bytes of
// input `input`: both are the whole of a register or temporary of the same device, with as many
// bytes and slots, that has one token a firing; the input is no state and no other operand, and the
// output is written by this instruction alone. Who else reads the input, and whether that is over
// by then, is not looked at: ProveBytes (bytes.h) does. Nor does it ask whether the op can.
absl::Status CheckTakes(const ProgramIndex& index, int a, int i, int output, int64_t input);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_PLAN_TAKES_H_
