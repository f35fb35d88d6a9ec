// That one process at a time works in a run's folder: two would spoil each other's log and
// checkpoints. The kernel keeps the lock, so that a process that is killed leaves none.
#ifndef SLUICE_FRAMEWORK_TRAIN_RUN_LOCK_H_
#define SLUICE_FRAMEWORK_TRAIN_RUN_LOCK_H_

#include <string>

#include "absl/status/statusor.h"

namespace sluice {

// The file in the folder that is locked. It stays, and says who has the lock or had it last.
constexpr char kRunLock[] = "run.lock";

// Held until it is destroyed. One thread.
class RunLock {
 public:
  // `folder` exists. AlreadyExists, at once, says which process has it, on which host, since when.
  static absl::StatusOr<RunLock> Take(const std::string& folder);
  RunLock(RunLock&& other) noexcept;
  RunLock& operator=(RunLock&&) = delete;
  ~RunLock();

 private:
  explicit RunLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TRAIN_RUN_LOCK_H_
