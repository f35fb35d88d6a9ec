// Which outputs lie where an input of their instruction lay: the logits' gradient where the logits
// were, which nobody reads once it is made. A device then has one of the two at its peak, not both.
// Pure; any thread.
#ifndef SLUICE_FRAMEWORK_COMPILER_TAKE_INPUTS_H_
#define SLUICE_FRAMEWORK_COMPILER_TAKE_INPUTS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/base/stop.h"
#include "framework/plan/plan.pb.h"
#include "framework/plan/program_index.h"

namespace sluice {

// May an op's outputs lie where this input does, if it is of their type (IsInPlace in
// graph/op_def.h)?
using InPlace = bool (*)(absl::string_view op, size_t input);
struct TakeOptions {
  InPlace in_place = nullptr;  // null: what outputs take stays as it is
  int64_t least = 0;           // bytes that are worth it
};

// Sets Operand.takes, anew, of all outputs that can take an input's bytes without a wait that the
// program does not have. The order must have been recorded; `index` is of the program, the ranks
// are those of instances of a step.
absl::Status TakeInputs(const ProgramIndex& index, absl::Span<const int32_t> begin_rank,
                        absl::Span<const int32_t> end_rank, const TakeOptions& options,
                        const Stop& stop, plan::Program* program);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMPILER_TAKE_INPUTS_H_
