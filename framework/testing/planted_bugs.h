// Bugs of distributed training, planted into a compiled plan to see that the checks of
// training_parity.h find them. Each function is an error, and names what it did not find, where
// there is nothing to plant it in. For tests.
#ifndef SLUICE_FRAMEWORK_TESTING_PLANTED_BUGS_H_
#define SLUICE_FRAMEWORK_TESTING_PLANTED_BUGS_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "framework/plan/plan.pb.h"

namespace sluice {

// Changes an instruction of a device and says whether it did.
using InstructionChange = std::function<bool(int32_t device, plan::Instruction*)>;
// Shows it those of program "train"; NotFound, naming `what`, unless one was changed.
absl::Status ChangeInstructions(absl::string_view what, plan::Plan* plan,
                                const InstructionChange& change);

// Every device keeps its own partial value of the tensor of this name instead of the sum of all.
absl::Status DropReduction(absl::string_view tensor, plan::Plan* plan);
// The sum that each device gets of the tensor is twice what it should be.
absl::Status CountTwice(absl::string_view tensor, plan::Plan* plan);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TESTING_PLANTED_BUGS_H_
