// A checkpoint is a directory "step-000123" with logical tensors, so any mesh loads any other's:
//   tensors.safetensors   every variable, optimizer state included
//   manifest.json         step, seed, samples seen, options, and name, type and digest of each
//   tensor
// It is written beside its place as "step-000123.tmp", synced, and renamed: what bears the name is
// whole. What is read is checked against the digests. One thread at a time per directory.
#ifndef SLUICE_FRAMEWORK_CHECKPOINT_CHECKPOINT_H_
#define SLUICE_FRAMEWORK_CHECKPOINT_CHECKPOINT_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/checkpoint/manifest.h"
#include "framework/checkpoint/safetensors.h"

namespace sluice {

// Writes <dir>/step-<step> and returns its path. On an error nothing is left behind and older
// checkpoints stay.
absl::StatusOr<std::string> SaveCheckpoint(const std::string& dir, const CheckpointMeta& meta,
                                           absl::Span<const TensorEntry> tensors,
                                           const TensorSource& source);

class Checkpoint {
 public:
  // `path` is one checkpoint. Errors say in one line what, expected and got.
  static absl::StatusOr<Checkpoint> Load(const std::string& path);

  const CheckpointMeta& meta() const { return meta_; }
  const std::vector<TensorEntry>& tensors() const { return tensors_.entries(); }
  // NotFound names the tensor; DataLoss says that its bytes are not those that were written.
  absl::StatusOr<HostTensor> Read(absl::string_view name) const;

 private:
  explicit Checkpoint(SafetensorsReader tensors) : tensors_(std::move(tensors)) {}
  std::string path_;
  CheckpointMeta meta_;
  SafetensorsReader tensors_;
  std::map<std::string, std::string, std::less<>> digests_;
};

// The checkpoint of the highest step in a directory; NotFound if there is none.
absl::StatusOr<std::string> LatestCheckpoint(const std::string& dir);
// Keeps the `keep` newest (at least one) and removes the others and what unfinished saves left.
absl::Status PruneCheckpoints(const std::string& dir, int64_t keep);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_CHECKPOINT_CHECKPOINT_H_
