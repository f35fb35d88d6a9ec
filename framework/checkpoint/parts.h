// A checkpoint that several ranks write, each the boxes that it is the one to save, so that none
// needs a whole tensor. Nothing here waits for another rank; the callers see to the order:
//   BeginCheckpoint       one rank
//   WriteCheckpointPart   every rank, at once if they like
//   CommitCheckpoint      one rank, when all others are done; also where one has failed, since it
//                         then says which and removes what the others wrote
// Until it is committed nothing bears the checkpoint's name; checkpoint.h says what does then.
#ifndef SLUICE_FRAMEWORK_CHECKPOINT_PARTS_H_
#define SLUICE_FRAMEWORK_CHECKPOINT_PARTS_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/checkpoint/manifest.h"
#include "framework/checkpoint/safetensors.h"

namespace sluice {

// One of `parts`, from 0.
struct CheckpointPart {
  int32_t part = 0, parts = 1;
};

struct BoxEntry {
  std::string tensor;
  Box box;
};

// Gives the value of a box, of the box's shape; called once for each, in order, so that one at a
// time need be in memory.
using BoxSource = std::function<absl::StatusOr<TensorValue>(const BoxEntry&)>;

// Makes the unfinished folder of the checkpoint, and removes what an earlier save left of it.
absl::Status BeginCheckpoint(const std::string& dir, const CheckpointMeta& meta,
                             FileFaults* faults = nullptr);
// Writes and syncs a part: boxes of some of the tensors, empty ones left out. `tensors` are all
// that the checkpoint will have, the same for every part. Errors: a box outside its tensor, a value
// of another type, the source's.
absl::Status WriteCheckpointPart(const std::string& dir, const CheckpointMeta& meta,
                                 const CheckpointPart& part, absl::Span<const TensorEntry> tensors,
                                 absl::Span<const BoxEntry> boxes, const BoxSource& source,
                                 FileFaults* faults = nullptr);
// Joins the parts' manifests to one and commits; the path of the checkpoint, which is on disk then.
// An error, and nothing is committed: a part that is missing or was written of another state than
// `meta`, tensors that parts do not agree on, an element of a tensor that no part or two have.
absl::StatusOr<std::string> CommitCheckpoint(const std::string& dir, const CheckpointMeta& meta,
                                             int32_t parts, FileFaults* faults = nullptr);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_CHECKPOINT_PARTS_H_
