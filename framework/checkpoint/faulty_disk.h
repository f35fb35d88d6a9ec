// A disk that fails at the n-th call that changes it, in a way that is chosen, and that can lose
// what nobody synced. For tests; calls from any thread, all else from one that knows them over.
#ifndef SLUICE_FRAMEWORK_CHECKPOINT_FAULTY_DISK_H_
#define SLUICE_FRAMEWORK_CHECKPOINT_FAULTY_DISK_H_

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "framework/checkpoint/file.h"

namespace sluice {

enum class DiskFault {
  kNone,
  kKill,       // SIGKILL before the call
  kKillTorn,   // SIGKILL after half of a write; before any other call
  kFullOnce,   // ENOSPC
  kErrorOnce,  // EIO
  kShort,      // a write takes half, and no error is told; other calls are made
  kFull,       // from here on: half of this write, and ENOSPC from whatever needs room
  kDead,       // from here on EIO from every call, as if the machine had stopped
};

class FaultyDisk : public FileFaults {
 public:
  // `at`: of the calls from 0.
  explicit FaultyDisk(DiskFault fault = DiskFault::kNone, int64_t at = 0)
      : fault_(fault), at_(at) {}

  int Before(FileOperation* operation) override;

  int64_t calls() const { return calls_; }
  bool struck() const { return struck_; }
  // The path of the first call that it had fail.
  const std::string& failed_path() const { return failed_path_; }

  // What a machine that loses power may do to the disk: files lose the half that was not synced,
  // and names that were made or changed in a directory that was not synced after it go back. (What
  // was removed stays removed: the worst for whoever removes too early.)
  void LosePower();

 private:
  struct NameChange {
    FileCall call;
    std::string path, to;
  };
  int Strike(FileOperation* operation);
  void Note(const FileOperation& operation);

  std::mutex mutex_;
  const DiskFault fault_;
  const int64_t at_;
  int64_t calls_ = 0;
  bool struck_ = false;
  std::string failed_path_;
  std::map<std::string, bool> files_;  // that were written: true if synced since
  std::vector<NameChange> names_;      // in order, that no sync has made last
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_CHECKPOINT_FAULTY_DISK_H_
