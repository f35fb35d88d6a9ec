// The folder of a run: options.txt, log.jsonl, checkpoints/step-<n> and run.lock. Finding one's way
// in it, and keeping out of the others'. One thread.
#ifndef SLUICE_FRAMEWORK_TRAIN_RUN_FOLDER_H_
#define SLUICE_FRAMEWORK_TRAIN_RUN_FOLDER_H_

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/checkpoint/checkpoint.h"
#include "framework/train/run_files.h"
#include "framework/train/run_lock.h"

namespace sluice {

// Whether a folder is that of a run, or a checkpoint, also one that is unfinished or set aside.
// Such a folder is never data: a run that read its own log would learn from something else after
// every resume.
bool IsRunFolder(const std::string& path);

// The run, or the checkpoint, that has written what lies at `path`; empty if none has.
std::string RunAround(const std::string& path);

// Says of a folder whether it must not be read as data: the folder of any run, or `out`, which may
// not exist yet.
std::function<bool(const std::string& path)> RunFolders(const std::string& out);

// AlreadyExists where a run has saved checkpoints in `out`: another one would spoil them.
absl::Status CheckNoRun(const std::string& out);

// What --resume comes to.
struct ResumePoint {
  std::string checkpoint;
  // Later ones of the same run that are not as they were written.
  std::vector<DamagedCheckpoint> damaged;
  // The run's folder, if the checkpoint is its last that is whole; empty: another run begins, so
  // that what came after it stays.
  std::string run;
  std::string digest;  // Checkpoint::digest of the checkpoint
};

// `path` is a checkpoint, the folder of a run, or a folder of checkpoints.
absl::StatusOr<ResumePoint> FindResumePoint(const std::string& path);

// The folder of a run while this process alone works in it. One that is given up before the run has
// begun is left as it was found.
class OwnRun {
 public:
  OwnRun(std::string out, bool made, RunLock lock)
      : out_(std::move(out)), made_(made), lock_(std::move(lock)) {}
  OwnRun(OwnRun&& other) noexcept
      : out_(std::move(other.out_)),
        made_(other.made_),
        begun_(std::exchange(other.begun_, true)),
        lock_(std::move(other.lock_)) {}
  OwnRun& operator=(OwnRun&&) = delete;
  ~OwnRun();

  const std::string& out() const { return out_; }
  const std::string& holder() const { return lock_.holder(); }  // RunLock::holder
  bool IsInPlace() const { return lock_.IsInPlace(); }
  // From here on something is written there.
  void Begin() { begun_ = true; }
  // Gives it up, if the run has not begun; before the end of a process that destroys nothing.
  void GiveUp();

 private:
  std::string out_;
  bool made_;  // the folder, by this process
  bool begun_ = false;
  RunLock lock_;
};

// Makes the folder of a new run, or takes that of the run to go on with. Where `by_time`, and its
// name is taken, as two runs of the same second have it, it gets another: "<out>-2". AlreadyExists:
// another process is at work there, or has been since `resume` was found, or checkpoints of another
// run are there.
absl::StatusOr<OwnRun> TakeRun(const std::string& out, bool by_time, const ResumePoint& resume);

// Keeps the log of a run that ended without a checkpoint under another name, log.lost-<n>.jsonl, so
// that a run can begin anew in its folder. Does nothing where there is no log. Requires: the folder
// is taken, as a run at work has a log before it has a checkpoint.
absl::Status SetLogAside(const std::string& out);

// Writes options.txt in the folder: a line "--name=value" a flag. An older one is replaced as a
// whole.
absl::Status WriteOptions(const std::string& out,
                          const std::vector<std::pair<std::string, std::string>>& flags);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TRAIN_RUN_FOLDER_H_
