// Writes checkpoints into a folder on a thread of its own, one at a time, while training goes on,
// and prunes the folder after each. The values are copied for it: it touches no session. Of
// several ranks each has one, and they write one checkpoint together: the first rank's begins the
// folder, commits and prunes. One thread owns and calls it.
#ifndef SLUICE_FRAMEWORK_CHECKPOINT_CHECKPOINT_WRITER_H_
#define SLUICE_FRAMEWORK_CHECKPOINT_CHECKPOINT_WRITER_H_

#include <cstdint>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/checkpoint/checkpoint.h"
#include "framework/checkpoint/parts.h"

namespace sluice {

// Asked by the writers of all ranks together, with a text each: the first rank's judges them, and
// all get what it finds. An error, too, where another rank is gone.
using AgreeFunction = std::function<absl::Status(
    const std::string& mine,
    const std::function<absl::Status(absl::Span<const std::string>)>& judge)>;

struct CheckpointWriterOptions {
  std::string dir;
  int64_t keep = 1;               // the newest checkpoints that stay
  BestBy best = {};               // and the one that is best by this, if it has a metric
  CheckpointPart part = {};       // which rank of how many
  AgreeFunction agree = nullptr;  // of several ranks; called on the writer's thread
  // Asked before each checkpoint on the first rank's writer's thread: an error is that of the save.
  // May be empty.
  std::function<absl::Status()> check = nullptr;
  FileFaults* faults = nullptr;  // a test's; called on the writer's thread
};

// What one rank writes of a checkpoint.
struct CheckpointContents {
  // The same on all ranks, but that the first rank alone need know the evaluation.
  CheckpointMeta meta;
  std::vector<TensorEntry> tensors;  // of the whole checkpoint, the same on all ranks
  std::vector<BoxEntry> boxes;       // of this rank; of a single one each tensor whole, in order
};

class CheckpointWriter {
 public:
  struct Result {
    int64_t step = 0;
    absl::StatusOr<std::string> saved;  // its path; of several ranks the same error on all of them
    absl::Status pruned;                // on the first rank
  };

  explicit CheckpointWriter(CheckpointWriterOptions options);
  // Waits until what was begun is written.
  ~CheckpointWriter();

  // Begins to write what `copied`, the first thing that its thread calls, gives. The result of what
  // was begun before must have been taken. All ranks begin the same checkpoints in the same order.
  void Begin(CheckpointContents contents, std::function<BoxSource()> copied);
  // The result of what was begun, once: none while it is being written, unless `wait`, and none
  // where nothing was begun.
  std::optional<Result> Take(bool wait);
  // The same while the caller waits, from a source that gives one value at a time. Nothing may be
  // begun and not taken. Other ranks may begin theirs: it makes no difference to them.
  Result Write(const CheckpointContents& contents, const BoxSource& source) const;

 private:
  absl::StatusOr<std::string> Save(const CheckpointContents& contents,
                                   const BoxSource& source) const;
  absl::StatusOr<std::string> SaveTogether(const CheckpointContents& contents,
                                           const BoxSource& source) const;

  const CheckpointWriterOptions options_;
  std::future<Result> pending_;
  std::thread thread_;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_CHECKPOINT_CHECKPOINT_WRITER_H_
