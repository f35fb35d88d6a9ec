#include "framework/data/file.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"

namespace sluice {
namespace {

absl::StatusOr<FileDescriptor> OpenRegular(const std::string& path, int64_t* size) {
  // Without waiting for someone to write to a pipe, which is refused below.
  FileDescriptor file(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (file.value() < 0) return CannotRead(path, errno);
  struct stat info;
  if (fstat(file.value(), &info) != 0) return CannotRead(path, errno);
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat("data: expected a file, ", path, " is none"));
  }
  *size = info.st_size;
  return file;
}

// As many as there are, and how many; -1: errno says why none could be read.
int64_t ReadPart(const FileDescriptor& file, int64_t offset, int64_t size, char* to) {
  int64_t done = 0;
  while (done < size) {
    const ssize_t got = pread(file.value(), to + done, size - done, offset + done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -1;
    if (got == 0) break;  // it has become shorter
    done += got;
  }
  return done;
}

}  // namespace

absl::Status CannotRead(const std::string& path, int error) {
  const std::string message = absl::StrCat("data: cannot read ", path, ": ", strerror(error));
  return error == ENOENT ? absl::NotFoundError(message) : absl::PermissionDeniedError(message);
}

FileDescriptor::~FileDescriptor() {
  if (value_ >= 0) close(value_);
}

absl::StatusOr<RandomAccessFile> RandomAccessFile::Open(const std::string& path) {
  RandomAccessFile file;
  ASSIGN_OR_RETURN(file.file_, OpenRegular(path, &file.size_));
  file.path_ = path;
  return file;
}

RandomAccessFile RandomAccessFile::OfBytes(std::string path, std::string bytes) {
  RandomAccessFile file;
  file.path_ = std::move(path);
  file.bytes_ = std::move(bytes);
  file.size_ = static_cast<int64_t>(file.bytes_.size());
  return file;
}

RandomAccessFile RandomAccessFile::OfDescriptor(std::string path, FileDescriptor descriptor,
                                                int64_t size) {
  RandomAccessFile file;
  file.path_ = std::move(path);
  file.file_ = std::move(descriptor);
  file.size_ = size;
  return file;
}

absl::Status RandomAccessFile::ReadAt(int64_t offset, int64_t size, char* to) const {
  if (size == 0) return absl::OkStatus();  // then there may be no place for it
  if (file_.value() < 0) {
    std::memcpy(to, bytes_.data() + offset, size);
    return absl::OkStatus();
  }
  const int64_t got = ReadPart(file_, offset, size, to);
  if (got < 0) return CannotRead(path_, errno);
  if (got == size) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("data: ", path_, ": expected ", size, " bytes at byte ",
                                          offset, " of the file that was opened, got ", got));
}

absl::StatusOr<std::string> ReadBegin(const RandomAccessFile& file, int64_t size) {
  std::string begin(std::min(size, file.size()), '\0');
  RETURN_IF_ERROR(file.ReadAt(0, static_cast<int64_t>(begin.size()), begin.data()));
  return begin;
}

absl::Status ReadFileInto(const std::string& path, std::string* bytes) {
  int64_t size = 0;
  ASSIGN_OR_RETURN(const FileDescriptor file, OpenRegular(path, &size));
  bytes->resize(size);
  const int64_t got = ReadPart(file, 0, size, bytes->data());
  if (got < 0) return CannotRead(path, errno);
  bytes->resize(got);
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::string bytes;
  RETURN_IF_ERROR(ReadFileInto(path, &bytes));
  return bytes;
}

void AllowOpenFiles(int64_t more) {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t wanted = limit.rlim_cur + static_cast<rlim_t>(more);
  if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = std::min(wanted, limit.rlim_max);
  setrlimit(RLIMIT_NOFILE, &limit);  // where it is refused, opening says so
}

}  // namespace sluice
