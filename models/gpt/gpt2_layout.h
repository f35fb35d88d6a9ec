// Hugging Face's GPT-2: a folder with config.json, model.safetensors or shards of it, and byte
// pairs where the model has some. Same model, other names; q, k and v are one fused matrix there.
// Weights are [in, out] on both sides, so bytes are moved and never computed with: there and back
// is bitwise. One thread.
#ifndef SLUICE_MODELS_GPT_GPT2_LAYOUT_H_
#define SLUICE_MODELS_GPT_GPT2_LAYOUT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/train/weight_layout.h"

namespace sluice {

// Writes the parameters of `checkpoint` as `folder`, with the byte pairs of its run if that has
// some. Optimizer state stays behind. Sizes come out of shapes; the number of heads is in none: it
// is `heads`, or, where that is 0, what the checkpoint's options say. `folder` is new, empty or an
// older export, which at every moment is whole or has been replaced by a whole one;
// FailedPrecondition names what else is there. Returns the names of the files.
absl::StatusOr<std::vector<std::string>> ExportGpt2(const std::string& checkpoint, int64_t heads,
                                                    const std::string& folder,
                                                    const ExportOptions& options = {});

// Writes the model of `folder` as <out>/step-000000: its parameters, and an optimizer's state of
// zeros, so that the trainer goes on from it; byte pairs become the run's. Takes names under any
// prefix, with and without "transformer.", and leaves out the mask buffers of old files, whatever
// their type. Errors name what this model cannot be: another kind or task, another activation,
// another epsilon, an untied head, a tensor missing, unknown, of another shape or not finite; other
// byte pairs than GPT-2's kind.
absl::StatusOr<ImportedWeights> ImportGpt2(const std::string& folder, const std::string& out);

}  // namespace sluice

#endif  // SLUICE_MODELS_GPT_GPT2_LAYOUT_H_
