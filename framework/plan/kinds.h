// The kinds of plan.proto: their names, which stand in text, errors and traces, and what is true of
// all instructions and streams of a kind. Pure; any thread.
#ifndef SLUICE_FRAMEWORK_PLAN_KINDS_H_
#define SLUICE_FRAMEWORK_PLAN_KINDS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "framework/base/device_kind.h"
#include "framework/plan/plan.pb.h"

namespace sluice {

// "feed"; empty for a number that is no kind.
absl::string_view InstructionKindName(plan::InstructionKind kind);
absl::string_view StreamKindName(plan::StreamKind kind);  // "compute"
// False, and `kind` as it was, if no kind has that name.
bool ParseInstructionKind(absl::string_view name, plan::InstructionKind* kind);
bool ParseStreamKind(absl::string_view name, plan::StreamKind* kind);

// Kernels and collectives: an op says what they do.
bool HasOp(plan::InstructionKind kind);
// What an instruction is called: by its op, or else by its kind.
std::string InstructionName(const plan::Instruction& instruction);
// Is a kernel prepared for it, by that name?
bool NeedsKernel(plan::InstructionKind kind);
// May its operands lie in other memory spaces than its stream's?
bool IsTransfer(plan::InstructionKind kind);
// Does what such a stream runs move bytes between memory spaces of a rank? There is one a
// direction, as cards have an engine for each.
bool IsCopyStream(plan::StreamKind kind);
// Does such a stream take its work in a recorded order? Of the others, one that holds a collective.
bool IsListed(plan::StreamKind kind);

DeviceKind KindOf(const plan::Device& device);
// By device: the first device of its memory space. All CPUs of a rank share the host's.
std::vector<int32_t> MemorySpaces(const plan::Plan& plan);
// "0:3", or "0:async3": rank, kind if it is no CPU, and index.
std::string DeviceName(const plan::Device& device);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_PLAN_KINDS_H_
