// Weights under the names and layouts that another framework gives the same model. Bytes are moved
// and never computed with, so that there and back is bitwise. One thread.
#ifndef SLUICE_FRAMEWORK_TRAIN_WEIGHT_LAYOUT_H_
#define SLUICE_FRAMEWORK_TRAIN_WEIGHT_LAYOUT_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/checkpoint/checkpoint.h"
#include "framework/train/run_files.h"
#include "framework/train/weight_files.h"

namespace sluice {

// One tensor of theirs: ours laid side by side along their last dimension, of which axis i is then
// axis axes[i], or as it is where there are no axes. All are f32.
struct WeightPair {
  TensorEntry theirs;
  std::vector<TensorEntry> ours;
  std::vector<int> axes;
  bool trained = true;  // has an optimizer's state
};
// Each of ours has this shape, from which that of theirs follows.
WeightPair PairWeights(const std::string& theirs, const std::vector<std::string>& ours,
                       const Shape& shape, const std::vector<int>& axes = {});

struct WeightLayout {
  std::string model;  // for errors: "GPT-2"
  std::vector<WeightPair> pairs;
  // What the optimizer that goes on from them keeps of each trained tensor: ".m", ".v".
  std::vector<std::string> states;
};

// How an export is written.
struct ExportOptions {
  // The most bytes of tensors in one file; a model that has more is written in shards with an
  // index. The default is that of save_pretrained in transformers 5.
  int64_t most_shard_bytes = 50'000'000'000;
  FileFaults* faults = nullptr;
};

// Writes the parameters of a checkpoint as `folder`: model.safetensors or shards and their index,
// and a file for each of `texts`. Optimizer state stays behind. One tensor at a time is in memory.
// Returns the names of the files. Errors name a tensor that is missing, unknown or of another type;
// of the folder they are as WriteExport has them.
absl::StatusOr<std::vector<std::string>> ExportWeights(
    const Checkpoint& checkpoint, const WeightLayout& layout,
    const std::map<std::string, std::string>& texts, const std::string& folder,
    const ExportOptions& options = {});

// Where an import goes, and what goes with its parameters.
struct ImportTarget {
  std::string out;                             // the folder of checkpoints
  std::map<std::string, std::string> options;  // that the checkpoint records
  RunFiles files = {};                         // that its run keeps
};

struct ImportedWeights {
  std::string checkpoint;  // its path
  int64_t widened = 0;     // tensors of F16 or BF16: their values are f32 now, exactly
  std::vector<std::string> remarks = {};  // that people should read, a line each
};

// Writes the model of files as <out>/step-000000: its parameters, and an optimizer's state of
// zeros, so that the trainer goes on from it. One tensor at a time is in memory. `left_out` says of
// a tensor that has no place in the layout whether the model is the same without it. Errors name a
// tensor that is missing, unknown, of another shape, or has a NaN or an infinity; of the folder
// they are as WriteImport has them.
absl::StatusOr<ImportedWeights> ImportWeights(
    const WeightFiles& files, const WeightLayout& layout,
    const std::function<absl::StatusOr<bool>(const std::string& name)>& left_out,
    const ImportTarget& target);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TRAIN_WEIGHT_LAYOUT_H_
