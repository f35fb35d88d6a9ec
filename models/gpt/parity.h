// The tiny GPT as framework/testing/training_parity.h compares it, on a layout. For tests of this
// package.
#ifndef SLUICE_MODELS_GPT_PARITY_H_
#define SLUICE_MODELS_GPT_PARITY_H_

#include <cstdint>

#include "absl/status/status.h"
#include "framework/testing/training_parity.h"
#include "models/gpt/parity_layouts.h"

namespace sluice {

ParityCase GptParity(const GptLayout& layout);

// A step on samples that are this token throughout, of a case whose layout has the batch of all.
absl::Status OneStep(ParityRun* run, int32_t token);

}  // namespace sluice

#endif  // SLUICE_MODELS_GPT_PARITY_H_
