// That one process at a time works in a run's folder, or at what else has a file of its own to be
// locked: two would spoil each other's log and checkpoints. The kernel keeps the lock, so that a
// process that is killed leaves none.
#ifndef SLUICE_FRAMEWORK_TRAIN_RUN_LOCK_H_
#define SLUICE_FRAMEWORK_TRAIN_RUN_LOCK_H_

#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace sluice {

// The file in the folder that is locked. It stays, and says who has the lock or had it last.
constexpr char kRunLock[] = "run.lock";

// Held until it is destroyed. One thread, but for what is const.
class RunLock {
 public:
  // `folder` exists. AlreadyExists, at once, says which process has it, on which host, since when.
  static absl::StatusOr<RunLock> Take(const std::string& folder);
  // Of work at `place`, for which the file `path` stands.
  static absl::StatusOr<RunLock> Take(const std::string& path, const std::string& place);
  RunLock(RunLock&& other) noexcept;
  RunLock& operator=(RunLock&&) = delete;
  ~RunLock();

  // What the file says of this process: one line, which no other process writes. Empty where it
  // could not be written.
  const std::string& holder() const { return holder_; }
  // Whether the folder is still at its path, and was not moved or replaced. Where it could not be
  // opened, or is none, the file is looked for instead.
  bool IsInPlace() const;
  // Whether there was no such file before, or nobody had ever had it.
  bool fresh() const { return fresh_; }
  // Removes the file. The lock is still held, of nothing that another process can find.
  void RemoveFile();

 private:
  RunLock(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}
  std::string path_, holder_;
  int descriptor_;
  int folder_ = -1;  // a descriptor of it
  bool fresh_ = false;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TRAIN_RUN_LOCK_H_
