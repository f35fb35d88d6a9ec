// Carries a session's variables to checkpoints and back, box by box, so that no rank holds more of
// a variable than it owns. The session's thread calls it.
#ifndef SLUICE_FRAMEWORK_TRAIN_VARIABLES_H_
#define SLUICE_FRAMEWORK_TRAIN_VARIABLES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/base/stop.h"
#include "framework/checkpoint/checkpoint.h"
#include "framework/checkpoint/checkpoint_writer.h"
#include "framework/checkpoint/parts.h"
#include "framework/session/session.h"

namespace sluice {

// Loads variables of a checkpoint into a session whose variables are all in it, of the same types.
// Nothing is written before all types are known to agree and all that is stored of what this rank
// holds has been read once and has its digest; it is then read again, a box at a time. Cancelled
// where `stop` says so.
absl::Status LoadVariables(const Checkpoint& checkpoint, Session* session, const Stop& stop = {});

// Loads those of the named variables of a session that the checkpoint has of the same type, as
// LoadVariables does, and leaves the others as they are. Returns the names of those.
absl::StatusOr<std::vector<std::string>> LoadWhatFits(const Checkpoint& checkpoint,
                                                      absl::Span<const std::string> names,
                                                      Session* session, const Stop& stop = {});

// What this rank, one of `ranks`, writes of a checkpoint of the session, for a CheckpointWriter;
// the meta is the caller's. A single rank writes tensors whole, of several each the boxes that it
// is the one to save.
absl::StatusOr<CheckpointContents> ContentsToSave(const Session& session, int32_t ranks);
// Gives the values of those boxes; its errors are the session's.
BoxSource ValuesToSave(Session* session, int32_t ranks);

// Where a session's snapshots go, for a CheckpointWriter. The memory stays from save to save, as
// the system takes longer to give pages than a copy takes to fill them.
class SavedCopy {
 public:
  static int64_t BytesFor(const CheckpointContents& contents);
  bool has_memory() const { return memory_ != nullptr; }

  // Once: snapshots of the session copy those contents here. An error is the session's.
  absl::Status Prepare(const CheckpointContents& contents, Session* session);
  // What the last snapshot that was finished has copied; it is there until the next is begun.
  BoxSource Values() const;

 private:
  std::unique_ptr<std::byte[]> memory_;
  std::vector<SnapshotBox> boxes_;
  std::vector<DType> types_;  // by box
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TRAIN_VARIABLES_H_
