#include "framework/checkpoint/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

absl::Status SystemError(absl::string_view path, absl::string_view doing, int error) {
  return absl::ErrnoToStatus(error, absl::StrCat(path, ": cannot ", doing));
}
absl::Status SystemError(absl::string_view path, absl::string_view doing,
                         const std::error_code& error) {
  return error ? SystemError(path, doing, error.value()) : absl::OkStatus();
}

}  // namespace

absl::StatusOr<FileWriter> FileWriter::Create(const std::string& path) {
  const int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor < 0) return SystemError(path, "create", errno);
  return FileWriter(path, descriptor);
}

FileWriter::FileWriter(FileWriter&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

FileWriter::~FileWriter() {
  if (descriptor_ >= 0) close(descriptor_);
}

absl::Status FileWriter::Append(const void* data, size_t size) {
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t written = write(descriptor_, at, std::min(size, size_t{1} << 30));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return SystemError(path_, "write", errno);
    at += written;
    size -= written;
  }
  return absl::OkStatus();
}

absl::Status FileWriter::Close() {
  if (fsync(descriptor_) != 0) return SystemError(path_, "sync", errno);
  if (close(std::exchange(descriptor_, -1)) != 0) return SystemError(path_, "close", errno);
  return absl::OkStatus();
}

absl::StatusOr<FileReader> FileReader::Open(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return SystemError(path, "open", errno);
  FileReader reader(path, descriptor, 0);
  struct stat info;
  if (fstat(descriptor, &info) != 0) return SystemError(path, "read", errno);
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": expected a file"));
  }
  reader.size_ = info.st_size;
  return reader;
}

FileReader::FileReader(FileReader&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_) {}

FileReader::~FileReader() {
  if (descriptor_ >= 0) close(descriptor_);
}

absl::Status FileReader::ReadAt(int64_t offset, void* data, int64_t size) const {
  char* at = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t got = pread(descriptor_, at, std::min<int64_t>(size, int64_t{1} << 30), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return SystemError(path_, "read", errno);
    if (got == 0) {
      return absl::DataLossError(
          absl::StrCat(path_, ": expected ", size, " more bytes at ", offset, ", got the end"));
    }
    at += got;
    offset += got;
    size -= got;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadText(const std::string& path, int64_t limit) {
  ASSIGN_OR_RETURN(FileReader reader, FileReader::Open(path));
  if (reader.size() > limit) {
    return absl::DataLossError(
        absl::StrCat(path, ": expected at most ", limit, " bytes, got ", reader.size()));
  }
  std::string text(reader.size(), '\0');
  RETURN_IF_ERROR(reader.ReadAt(0, text.data(), reader.size()));
  return text;
}

absl::Status CreateDirectories(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  return SystemError(path, "create the directory", error);
}

absl::Status SyncDirectory(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return SystemError(path, "open", errno);
  const int failed = fsync(descriptor) != 0 ? errno : 0;
  close(descriptor);
  return failed != 0 ? SystemError(path, "sync", failed) : absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& path) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(path, error), end; !error && at != end; at.increment(error)) {
    names.push_back(at->path().filename().string());
  }
  if (error == std::errc::no_such_file_or_directory) return names;
  RETURN_IF_ERROR(SystemError(path, "list", error));
  std::sort(names.begin(), names.end());
  return names;
}

absl::Status RemoveTree(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  return SystemError(path, "remove", error);
}

absl::Status ReplaceDirectory(const std::string& from, const std::string& to) {
  if (rename(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
  if (errno != ENOTEMPTY && errno != EEXIST) return SystemError(to, "replace", errno);
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) != 0) {
    return SystemError(to, "replace", errno);
  }
  return RemoveTree(from);
}

}  // namespace sluice
