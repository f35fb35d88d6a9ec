// A model in several safetensors files, as Hugging Face's save_pretrained writes what is too large
// for one: shards "model-00001-of-00003.safetensors" .. and model.safetensors.index.json, which
// says where each tensor is:
//   {"metadata": {"total_parameters": 300, "total_size": 1200},
//    "weight_map": {"wte.weight": "model-00001-of-00003.safetensors", ..}}
// Pure.
#ifndef SLUICE_FRAMEWORK_CHECKPOINT_SAFETENSORS_SHARDS_H_
#define SLUICE_FRAMEWORK_CHECKPOINT_SAFETENSORS_SHARDS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/checkpoint/safetensors.h"
#include "framework/tensor/shape.h"

namespace sluice {

// The files of tensors in a folder: either the one file, or the index and its shards.
constexpr char kWeightsFile[] = "model.safetensors";
constexpr char kWeightsIndexFile[] = "model.safetensors.index.json";

// The name of a shard, counted from 0.
std::string ShardFile(int64_t shard, int64_t shards);
// Returns whether a file of this name holds weights or says where they are: one of those above, or
// a shard of any number.
bool IsWeightsFile(absl::string_view name);

// Returns the file of each tensor, by the tensor's name. DataLoss, which begins with `file`: the
// text is no such index, or names a file that is outside of the index's own folder.
absl::StatusOr<std::map<std::string, std::string>> ParseShardIndex(absl::string_view text,
                                                                   absl::string_view file);
// `parameters` and `bytes` are the sizes of all tensors together. The text is that of
// transformers 5.
std::string PrintShardIndex(const std::map<std::string, std::string>& file_of_tensor,
                            int64_t parameters, int64_t bytes);

// Cuts tensors, in their order, into the ranges that each shard holds: as many as fit into
// `most_bytes`, and at least one.
std::vector<Range> CutIntoShards(absl::Span<const TensorEntry> tensors, int64_t most_bytes);

// The size of a tensor in bytes.
int64_t BytesOf(const TensorEntry& tensor);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_CHECKPOINT_SAFETENSORS_SHARDS_H_
