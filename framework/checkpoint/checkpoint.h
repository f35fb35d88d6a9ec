// A checkpoint is a directory "step-000123" with logical tensors, so any mesh loads any other's:
//   tensors.safetensors   every variable, optimizer state included
//   manifest.json         step, seed, samples seen, options, size and digest of the data, and name,
//   type and digest of each tensor
// It is written beside its place as "step-000123.tmp", synced, and renamed, and renamed back before
// it is removed: what bears the name is whole, whenever a process dies or a machine loses power.
// What is read is checked against the digests. One thread at a time per directory.
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

// Writes <dir>/step-<step> and returns its path: then it is on disk. On an error older checkpoints
// stay, and nothing is left behind that the next save does not remove.
absl::StatusOr<std::string> SaveCheckpoint(const std::string& dir, const CheckpointMeta& meta,
                                           absl::Span<const TensorEntry> tensors,
                                           const TensorSource& source,
                                           FileFaults* faults = nullptr);

class Checkpoint {
 public:
  // `path` is one checkpoint. Errors say in one line what, expected and got.
  static absl::StatusOr<Checkpoint> Load(const std::string& path);

  const CheckpointMeta& meta() const { return meta_; }
  const std::vector<TensorEntry>& tensors() const { return tensors_.entries(); }
  // NotFound names the tensor; DataLoss says that its bytes are not those that were written.
  absl::StatusOr<HostTensor> Read(absl::string_view name) const;
  // Reads everything and forgets it: DataLoss as Read has it.
  absl::Status Verify() const;

 private:
  explicit Checkpoint(SafetensorsReader tensors) : tensors_(std::move(tensors)) {}
  std::string path_;
  CheckpointMeta meta_;
  SafetensorsReader tensors_;
  std::map<std::string, std::string, std::less<>> digests_;
};

// The checkpoint of the highest step in a directory; NotFound if there is none.
absl::StatusOr<std::string> LatestCheckpoint(const std::string& dir);

struct DamagedCheckpoint {
  std::string path;
  absl::Status status;  // what Load or Verify said
};
// The same of those that are as they were written; `damaged` gets those of higher steps. NotFound
// if there is no checkpoint, and the newest one's error if none is whole.
absl::StatusOr<std::string> LatestGoodCheckpoint(const std::string& dir,
                                                 std::vector<DamagedCheckpoint>* damaged);
// Renames a checkpoint to "<path>.damaged", so that it is neither loaded nor counted.
absl::Status SetCheckpointAside(const std::string& path);

// Keeps the `keep` newest (at least one) and removes the others and what unfinished saves left.
absl::Status PruneCheckpoints(const std::string& dir, int64_t keep, FileFaults* faults = nullptr);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_CHECKPOINT_CHECKPOINT_H_
