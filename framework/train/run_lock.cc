#include "framework/train/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "framework/base/status.h"

namespace sluice {
namespace {

constexpr char kHolder[] = "process ";  // begins what a holder writes

std::string Holder() {
  char host[256] = "";
  if (gethostname(host, sizeof(host) - 1) != 0) host[0] = '\0';
  return absl::StrCat(kHolder, getpid(), " on ", host[0] == '\0' ? "an unknown host" : host,
                      " since ",
                      absl::FormatTime("%Y-%m-%d %H:%M:%S", absl::Now(), absl::LocalTimeZone()));
}

// What the holder wrote; a moment after it took the lock there may be nothing yet.
std::string HolderIn(int descriptor) {
  char text[512];
  const ssize_t size = pread(descriptor, text, sizeof(text), 0);
  const std::string holder(text, size > 0 ? size : 0);
  return holder.empty() ? "another process" : holder.substr(0, holder.find('\n'));
}

// Opens the file, which is made if it is not there. A folder from anywhere may have a pipe in its
// place, which is not waited for, or a link to a file of somebody's, which is not written.
absl::StatusOr<int> OpenFile(const std::string& path) {
  constexpr int kFlags = O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  const int descriptor = open(path.c_str(), kFlags, 0666);
  if (descriptor >= 0) return descriptor;
  return absl::ErrnoToStatus(errno, absl::StrCat(path, ": cannot create"));
}

// 0, or why not.
int Lock(int descriptor) {
  while (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

// Whether `path` names the file that is open: who had it locked before may have removed it.
bool IsAt(const std::string& path, const struct stat& opened) {
  struct stat info;
  return lstat(path.c_str(), &info) == 0 && info.st_dev == opened.st_dev &&
         info.st_ino == opened.st_ino;
}

}  // namespace

absl::StatusOr<RunLock> RunLock::Take(const std::string& folder) {
  ASSIGN_OR_RETURN(RunLock lock, Take(absl::StrCat(folder, "/", kRunLock), folder));
  // People remove a lock's file who think that it is left over: the folder is still locked. Where
  // the file system locks no folders, the file alone is.
  lock.folder_ = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock.folder_ >= 0 && Lock(lock.folder_) == EWOULDBLOCK) {
    if (lock.fresh()) lock.RemoveFile();
    return absl::AlreadyExistsError(absl::StrCat(
        folder, ": expected no other process at work, another one has the folder locked"));
  }
  return lock;
}

absl::StatusOr<RunLock> RunLock::Take(const std::string& path, const std::string& place) {
  constexpr int kMostTries = 100;
  for (int tries = 0; tries < kMostTries; ++tries) {
    ASSIGN_OR_RETURN(const int descriptor, OpenFile(path));
    RunLock lock(path, descriptor);
    struct stat info;
    if (fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode)) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": expected a file"));
    }
    const int error = Lock(descriptor);
    if (error == EWOULDBLOCK) {
      return absl::AlreadyExistsError(absl::StrCat(place, ": expected no other process at work, ",
                                                   HolderIn(descriptor), " has ", path, " locked"));
    }
    if (error != 0) return absl::ErrnoToStatus(error, absl::StrCat(path, ": cannot lock"));
    if (!IsAt(path, info)) continue;
    lock.fresh_ = info.st_size == 0;
    if (!lock.fresh_ && !absl::StartsWith(HolderIn(descriptor), kHolder)) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": expected what a process has locked, got a file of somebody's"));
    }
    // Only told, never relied on: where the disk takes nothing, what follows will say so.
    const std::string holder = Holder();
    const std::string line = holder + "\n";
    const bool written =
        ftruncate(descriptor, 0) == 0 &&
        pwrite(descriptor, line.data(), line.size(), 0) == static_cast<ssize_t>(line.size());
    if (written) lock.holder_ = holder;
    return lock;
  }
  return absl::AbortedError(absl::StrCat(path, ": removed again and again while it was locked"));
}

RunLock::RunLock(RunLock&& other) noexcept
    : path_(std::move(other.path_)),
      holder_(std::move(other.holder_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      folder_(std::exchange(other.folder_, -1)),
      fresh_(other.fresh_) {}

bool RunLock::IsInPlace() const {
  struct stat info;
  // The folder itself tells, because people remove the file.
  if (folder_ >= 0) {
    return fstat(folder_, &info) == 0 && IsAt(std::filesystem::path(path_).parent_path(), info);
  }
  return descriptor_ >= 0 && fstat(descriptor_, &info) == 0 && IsAt(path_, info);
}

void RunLock::RemoveFile() {
  if (descriptor_ >= 0) unlink(path_.c_str());
}

RunLock::~RunLock() {
  if (folder_ >= 0) close(folder_);
  if (descriptor_ >= 0) close(descriptor_);
}

}  // namespace sluice
