#include "framework/data/spooled_file.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/memory.h"
#include "framework/base/status.h"

namespace sluice {
namespace {

constexpr int64_t kWriteAtOnce = int64_t{1} << 20;

// /tmp is a part of memory on many systems; /var/tmp is for what is large.
std::string TemporaryFolder() {
  const char* const folder = std::getenv("TMPDIR");
  return folder == nullptr || *folder == '\0' ? "/var/tmp" : folder;
}

int64_t MostInMemory() {
  constexpr int64_t kShare = 8, kUnlimited = int64_t{1} << 30;
  const MemoryLimits limits = ReadMemoryLimits();
  return limits.most == 0 ? kUnlimited : limits.available / kShare;
}

}  // namespace

SpooledFile::SpooledFile(std::string path, const SpoolOptions& options)
    : path_(std::move(path)),
      folder_(options.folder.empty() ? TemporaryFolder() : options.folder),
      most_in_memory_(options.most_in_memory.has_value() ? *options.most_in_memory
                                                         : MostInMemory()),
      left_free_(options.left_free) {}

absl::Status SpooledFile::Begin() {
  std::string name = folder_ + "/sluice-XXXXXX";
  file_ = FileDescriptor(mkostemp(name.data(), O_CLOEXEC));
  if (file_.value() < 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("data: ", path_, ": expected a folder for what is larger than memory, got ",
                     folder_, " (TMPDIR): ", strerror(errno)));
  }
  unlink(name.c_str());  // who has it open keeps it
  return Write();
}

absl::Status SpooledFile::Write() {
  const int64_t written = size_ - static_cast<int64_t>(bytes_.size());
  const auto no_room = [&](absl::string_view got) {
    return absl::ResourceExhaustedError(
        absl::StrCat("data: ", path_, ": expected room in ", folder_, " (TMPDIR) for more than ",
                     written >> 20, " MiB of what is larger than memory, got ", got));
  };
  struct statvfs disk;
  if (fstatvfs(file_.value(), &disk) != 0) return no_room(strerror(errno));
  const auto free = static_cast<int64_t>(disk.f_bavail * disk.f_frsize);
  if (free - static_cast<int64_t>(bytes_.size()) < left_free_) {
    return no_room(absl::StrCat(free >> 20, " MiB, of which ", left_free_ >> 20, " stay free"));
  }
  for (size_t done = 0; done < bytes_.size();) {
    const ssize_t some = write(file_.value(), bytes_.data() + done, bytes_.size() - done);
    if (some < 0 && errno == EINTR) continue;
    if (some < 0) return no_room(strerror(errno));
    done += some;
  }
  bytes_.clear();
  return absl::OkStatus();
}

void SpooledFile::Reserve(int64_t size) {
  if (size <= most_in_memory_) bytes_.reserve(size);
}

absl::Status SpooledFile::Append(absl::string_view bytes) {
  const bool in_memory = file_.value() < 0;
  const size_t wanted = bytes_.size() + bytes.size();
  // Memory doubles up to the limit and not beyond.
  if (in_memory && wanted > bytes_.capacity() && static_cast<int64_t>(wanted) <= most_in_memory_) {
    bytes_.reserve(std::clamp<size_t>(2 * bytes_.capacity(), wanted, most_in_memory_));
  }
  if (in_memory && static_cast<int64_t>(wanted) > most_in_memory_) {
    RETURN_IF_ERROR(Begin());
    std::string().swap(bytes_);  // gives its memory back
  }
  bytes_.append(bytes.data(), bytes.size());
  size_ += static_cast<int64_t>(bytes.size());
  if (file_.value() < 0 || static_cast<int64_t>(bytes_.size()) < kWriteAtOnce) {
    return absl::OkStatus();
  }
  return Write();
}

absl::StatusOr<RandomAccessFile> SpooledFile::Finish() && {
  if (file_.value() < 0) return RandomAccessFile::OfBytes(std::move(path_), std::move(bytes_));
  RETURN_IF_ERROR(Write());
  return RandomAccessFile::OfDescriptor(std::move(path_), std::move(file_), size_);
}

}  // namespace sluice
