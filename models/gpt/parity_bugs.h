// Bugs of distributed training, planted into a compiled plan of the tiny GPT, to see that the
// checks of parity.h find them. Each function names what it did not find, so that no bug is planted
// in vain. For tests of this package.
#ifndef SLUICE_MODELS_GPT_PARITY_BUGS_H_
#define SLUICE_MODELS_GPT_PARITY_BUGS_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "framework/plan/plan.pb.h"

namespace sluice {

// Every device keeps its own partial value of the tensor of this name instead of the sum of all.
absl::Status DropReduction(absl::string_view tensor, plan::Plan* plan);
// The sum that each device gets of the tensor is twice what it should be.
absl::Status CountTwice(absl::string_view tensor, plan::Plan* plan);
// Every device draws the dropout of the first samples, whichever it has.
absl::Status ShareDropoutMask(plan::Plan* plan);
// The gradient of the mean loss is divided by what each device has of the batch, not by the batch.
// `devices` of these means are averaged: 1 forgets that they are several.
absl::Status DivideByLocalBatch(int64_t devices, plan::Plan* plan);
// Forward and backward read the weight as it was a step earlier.
absl::Status UseStaleWeight(absl::string_view variable, plan::Plan* plan);

}  // namespace sluice

#endif  // SLUICE_MODELS_GPT_PARITY_BUGS_H_
