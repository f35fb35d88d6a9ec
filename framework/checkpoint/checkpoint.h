// A checkpoint is a directory "step-000123" with logical tensors, so any mesh and any number of
// ranks loads any other's. One rank that has whole tensors writes
//   tensors.safetensors   every variable, optimizer state included
//   manifest.json         step, seed, samples seen, options, size and digest of the data, and name,
//   type and digest of each tensor
// and several ranks (parts.h) write
//   tensors-00001-of-00004.safetensors ..   of each rank the boxes that it is the one to save
//   manifest.json         the same, but that of each tensor it has the boxes: part, box, digest
// It is written beside its place as "step-000123.tmp", synced, and renamed, and renamed back before
// it is removed: what bears the name is whole, whenever a process dies or a machine loses power.
// What is read is checked against the digests, and of each tensor the boxes hold every element
// once. One thread at a time per directory, but that parts are written at once.
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

  const std::string& path() const { return path_; }
  const CheckpointMeta& meta() const { return meta_; }
  // Of all that its manifest says, digests of its tensors included: two checkpoints with the same
  // digest hold the same, as far as what is read of them has the digests that it should have.
  const std::string& digest() const { return digest_; }
  const std::vector<TensorEntry>& tensors() const { return tensors_; }
  // NotFound names the tensor; DataLoss says that its bytes are not those that were written.
  absl::StatusOr<HostTensor> Read(absl::string_view name) const;
  // Any box of a tensor, of the box's shape, out of the boxes that are stored. Those that it meets
  // are read to their ends, for the sake of their digests, but no more than a piece of one is ever
  // in memory. InvalidArgument where the box does not lie inside.
  absl::StatusOr<HostTensor> ReadBox(absl::string_view name, const Box& box) const;
  // Reads all that is stored of what the boxes meet, once, and forgets it: an error as ReadBox has
  // it.
  absl::Status VerifyBoxes(absl::string_view name, absl::Span<const Box> boxes) const;
  // The same of everything.
  absl::Status Verify() const;

 private:
  struct Stored {
    int index = 0;  // of tensors_
    std::vector<StoredBox> boxes;
  };
  Checkpoint() = default;
  absl::StatusOr<const Stored*> Find(absl::string_view name) const;
  // As Find, and the box lies inside.
  absl::StatusOr<const Stored*> FindAround(absl::string_view name, const Box& box) const;
  // Reads what is stored and checks its digest; what lies in `box`, if any is given, goes to
  // `value`.
  absl::Status ReadStored(const TensorEntry& tensor, const StoredBox& stored, const Box* box,
                          HostTensor* value) const;

  std::string path_, digest_;
  CheckpointMeta meta_;
  int32_t parts_ = 0;
  std::vector<SafetensorsReader> files_;  // by part
  std::vector<TensorEntry> tensors_;
  std::map<std::string, Stored, std::less<>> stored_;  // by tensor
};

// The checkpoint of the highest step in a directory; NotFound if there is none.
absl::StatusOr<std::string> LatestCheckpoint(const std::string& dir);

struct DamagedCheckpoint {
  std::string path;
  absl::Status status;  // what Load or Verify said
};
// The same of those that are as they were written; `damaged` gets those of higher steps. NotFound
// if there is no checkpoint, DataLoss with the newest one's error if none is whole. One that could
// not be read may be whole: its error is returned, of its own code, and `damaged` is empty.
absl::StatusOr<std::string> LatestGoodCheckpoint(const std::string& dir,
                                                 std::vector<DamagedCheckpoint>* damaged);
// Renames a checkpoint to "<path>.damaged", so that it is neither loaded nor counted.
absl::Status SetCheckpointAside(const std::string& path);

// By which figure of CheckpointMeta::evaluation checkpoints are compared.
struct BestBy {
  std::string metric;  // empty: they are not
  bool larger_is_better = false;
};
// Of the checkpoints up to step `newest` the one with the best figure, of equal ones the first;
// NotFound if none has the figure.
absl::StatusOr<std::string> BestCheckpoint(const std::string& dir, int64_t newest,
                                           const BestBy& best);

// Of the checkpoints up to step `newest`, the one just written, keeps the `keep` newest (at least
// one) and the best one, if one is asked for; removes the others and what unfinished saves left.
// Those of higher steps are another run's and stay.
absl::Status PruneCheckpoints(const std::string& dir, int64_t newest, int64_t keep,
                              const BestBy& best = {}, FileFaults* faults = nullptr);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_CHECKPOINT_CHECKPOINT_H_
