#include "framework/train/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace sluice {
namespace {

std::string Holder() {
  char host[256] = "";
  if (gethostname(host, sizeof(host) - 1) != 0) host[0] = '\0';
  return absl::StrCat("process ", getpid(), " on ", host[0] == '\0' ? "an unknown host" : host,
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

}  // namespace

absl::StatusOr<RunLock> RunLock::Take(const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/", kRunLock);
  // A folder from anywhere may have a pipe there, which is not waited for, or a link to a file of
  // somebody's, which is not written.
  constexpr int kFlags = O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  const int descriptor = open(path.c_str(), kFlags, 0644);
  if (descriptor < 0) return absl::ErrnoToStatus(errno, absl::StrCat(path, ": cannot create"));
  RunLock lock(descriptor);
  struct stat info;
  if (fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": expected a file"));
  }
  int locked = 0;
  do {
    locked = flock(descriptor, LOCK_EX | LOCK_NB);
  } while (locked != 0 && errno == EINTR);
  if (locked != 0 && errno == EWOULDBLOCK) {
    return absl::AlreadyExistsError(absl::StrCat(folder, ": expected no other process at work, ",
                                                 HolderIn(descriptor), " has ", path, " locked"));
  }
  if (locked != 0) return absl::ErrnoToStatus(errno, absl::StrCat(path, ": cannot lock"));
  // Only told, never relied on: where the disk takes nothing, what follows will say so.
  const std::string holder = Holder() + "\n";
  if (ftruncate(descriptor, 0) == 0 && pwrite(descriptor, holder.data(), holder.size(), 0) < 0) {
    errno = 0;
  }
  return lock;
}

RunLock::RunLock(RunLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

RunLock::~RunLock() {
  if (descriptor_ >= 0) close(descriptor_);
}

}  // namespace sluice
