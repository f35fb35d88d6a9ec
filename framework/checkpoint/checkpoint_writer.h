// Writes checkpoints into a folder on a thread of its own, one at a time, while training goes on,
// and prunes the folder after each. The values were copied for it: it touches no session. One
// thread owns and calls it.
#ifndef SLUICE_FRAMEWORK_CHECKPOINT_CHECKPOINT_WRITER_H_
#define SLUICE_FRAMEWORK_CHECKPOINT_CHECKPOINT_WRITER_H_

#include <cstdint>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/checkpoint/checkpoint.h"

namespace sluice {

class CheckpointWriter {
 public:
  struct Result {
    int64_t step = 0;
    absl::StatusOr<std::string> saved;  // its path
    absl::Status pruned;
  };

  // Keeps the `keep` newest checkpoints of `dir`. `faults`, if any, is called on the other thread.
  CheckpointWriter(std::string dir, int64_t keep, FileFaults* faults = nullptr);
  // Waits until what was begun is written.
  ~CheckpointWriter();

  // Begins to write `values`, in the order of `entries`. The result of what was begun before must
  // have been taken.
  void Begin(CheckpointMeta meta, std::vector<TensorEntry> entries, std::vector<HostTensor> values);
  // The result of what was begun, once: none while it is being written, unless `wait`, and none
  // where nothing was begun.
  std::optional<Result> Take(bool wait);
  // The same while the caller waits, from a source that gives one value at a time. Nothing may be
  // begun and not taken.
  Result Write(const CheckpointMeta& meta, const std::vector<TensorEntry>& entries,
               const TensorSource& source) const;

 private:
  const std::string dir_;
  const int64_t keep_;
  FileFaults* const faults_;
  std::future<Result> pending_;
  std::thread thread_;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_CHECKPOINT_CHECKPOINT_WRITER_H_
