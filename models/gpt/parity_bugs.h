// Bugs that a GPT has a place for, beside those of framework/testing/planted_bugs.h. For tests of
// this package.
#ifndef SLUICE_MODELS_GPT_PARITY_BUGS_H_
#define SLUICE_MODELS_GPT_PARITY_BUGS_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "framework/plan/plan.pb.h"

namespace sluice {

// Every device draws the dropout of the first samples, whichever it has.
absl::Status ShareDropoutMask(plan::Plan* plan);
// The gradient of the mean loss is divided by what each device has of the batch, not by the batch.
// `devices` of these means are averaged: 1 forgets that they are several.
absl::Status DivideByLocalBatch(int64_t devices, plan::Plan* plan);
// Forward and backward read the weight as it was a step earlier.
absl::Status UseStaleWeight(absl::string_view variable, plan::Plan* plan);

}  // namespace sluice

#endif  // SLUICE_MODELS_GPT_PARITY_BUGS_H_
