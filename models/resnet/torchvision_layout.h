// torchvision's ResNets: a safetensors file with the state_dict of resnet18, 34, 50 or 101, which
// timm and Hugging Face's hub have under the same names. Same model, other names and axes: there
// convolutions are [out, in, height, width] and the last layer [out, in]. Bytes are moved and never
// computed with: there and back is bitwise. A model there takes pictures that are normalised, one
// here pixels; the means and deviations are no weights, and stay behind. So does
// num_batches_tracked, which torch counts and, where a file has none, takes as 0. One thread.
#ifndef SLUICE_MODELS_RESNET_TORCHVISION_LAYOUT_H_
#define SLUICE_MODELS_RESNET_TORCHVISION_LAYOUT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/train/weight_layout.h"

namespace sluice {

// Writes the parameters and running statistics of `checkpoint` as `folder`, model.safetensors or
// shards of it, and returns the names of the files. Optimizer state stays behind. `folder` is new,
// empty or an older export, which at every moment is whole or has been replaced by a whole one;
// FailedPrecondition names what else is there.
absl::StatusOr<std::vector<std::string>> ExportTorchvision(const std::string& checkpoint,
                                                           const std::string& folder,
                                                           const ExportOptions& options = {});

// Writes the model of a safetensors file, or of a folder's model.safetensors or shards, as
// <out>/step-000000: its parameters and statistics, and the momentum of SGD, zeros, so that the
// trainer goes on from it. Names may have any prefix. Sizes come out of shapes and the depth out of
// the blocks. A stem of 3x3 is taken as one that keeps the size of small images, one of 7x7 as
// torchvision's own. Errors name a tensor that is missing, unknown, of another shape or not finite,
// blocks that no such model has, and another architecture that a config.json names.
absl::StatusOr<ImportedWeights> ImportTorchvision(const std::string& model, const std::string& out);

}  // namespace sluice

#endif  // SLUICE_MODELS_RESNET_TORCHVISION_LAYOUT_H_
