// Hugging Face's GPT-2: a folder with model.safetensors and config.json. Same model, other names;
// q, k and v are one fused matrix there. Weights are [in, out] on both sides, so bytes are moved
// and never computed with: there and back is bitwise. One thread.
#ifndef SLUICE_MODELS_GPT_GPT2_LAYOUT_H_
#define SLUICE_MODELS_GPT_GPT2_LAYOUT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "framework/checkpoint/file.h"
#include "framework/train/weight_layout.h"

namespace sluice {

// Writes the parameters of `checkpoint` as `folder`. Optimizer state stays behind. Sizes come out
// of shapes; the number of heads is in none: it is `heads`, or, where that is 0, what the
// checkpoint's options say. `folder` is new, empty or an older export, which at every moment is
// whole or has been replaced by a whole one; FailedPrecondition names what else lies there.
absl::Status ExportGpt2(const std::string& checkpoint, int64_t heads, const std::string& folder,
                        FileFaults* faults = nullptr);

// Writes the model of `folder` as <out>/step-000000: its parameters, and an optimizer's state of
// zeros, so that the trainer goes on from it. Takes names with and without "transformer.", and
// leaves out the mask buffers of old files, whatever their type. Errors name what this model cannot
// be: another activation, another epsilon, an untied head, a tensor missing, unknown or of another
// shape.
absl::StatusOr<ImportedWeights> ImportGpt2(const std::string& folder, const std::string& out);

}  // namespace sluice

#endif  // SLUICE_MODELS_GPT_GPT2_LAYOUT_H_
