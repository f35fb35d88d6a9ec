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
  // A limit on the size of files is as a disk that is full. Abseil has it as OutOfRange, by which a
  // save says that values are not finite.
  if (error == EFBIG) {
    return absl::ResourceExhaustedError(
        absl::StrCat(path, ": cannot ", doing, ": ", std::generic_category().message(error)));
  }
  return absl::ErrnoToStatus(error, absl::StrCat(path, ": cannot ", doing));
}

// What `call` returns, unless `faults` has it fail: then -1, with the errno that it chose.
template <typename Call>
auto Ask(FileFaults* faults, FileOperation operation, const Call& call) {
  if (faults != nullptr) {
    const int error = faults->Before(&operation);
    if (error != 0) {
      errno = error;
      return decltype(call(operation))(-1);
    }
  }
  return call(operation);
}

std::string ParentOf(const std::string& path) {
  const std::string parent = fs::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

absl::Status MakeDirectory(const std::string& path, FileFaults* faults) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return absl::OkStatus();
  const int made = Ask(faults, {FileCall::kMakeDirectory, path, ""},
                       [](const FileOperation& o) { return mkdir(o.path.c_str(), 0777); });
  const bool there = made != 0 && errno == EEXIST && fs::is_directory(path, ignored);
  if (made != 0 && !there) return SystemError(path, "create the directory", errno);
  return SyncDirectory(ParentOf(path), faults);
}

}  // namespace

absl::StatusOr<FileWriter> FileWriter::Open(const std::string& path, int flags,
                                            FileFaults* faults) {
  const int descriptor = Ask(faults, {FileCall::kOpen, path, ""}, [flags](const FileOperation& o) {
    return open(o.path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0666);
  });
  if (descriptor < 0) return SystemError(path, "create", errno);
  return FileWriter(path, descriptor, faults);
}

absl::StatusOr<FileWriter> FileWriter::Create(const std::string& path, FileFaults* faults) {
  return Open(path, O_TRUNC, faults);
}

absl::StatusOr<FileWriter> FileWriter::Extend(const std::string& path, FileFaults* faults) {
  return Open(path, O_APPEND, faults);
}

FileWriter::FileWriter(FileWriter&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      faults_(other.faults_) {}

FileWriter::~FileWriter() {
  if (descriptor_ >= 0) close(descriptor_);
}

absl::Status FileWriter::Append(const void* data, size_t size) {
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t written =
        Ask(faults_, {FileCall::kWrite, path_, "", std::min(size, size_t{1} << 30)},
            [&](const FileOperation& o) { return write(descriptor_, at, o.size); });
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return SystemError(path_, "write", errno);
    at += written;
    size -= written;
  }
  return absl::OkStatus();
}

absl::Status FileWriter::Close() {
  const int descriptor = descriptor_;
  if (Ask(faults_, {FileCall::kSync, path_, ""},
          [&](const FileOperation&) { return fsync(descriptor); }) != 0) {
    return SystemError(path_, "sync", errno);
  }
  if (Ask(faults_, {FileCall::kClose, path_, ""},
          [&](const FileOperation&) { return close(std::exchange(descriptor_, -1)); }) != 0) {
    return SystemError(path_, "close", errno);
  }
  return absl::OkStatus();
}

absl::StatusOr<FileReader> FileReader::Open(const std::string& path) {
  // Without waiting for someone to write to a pipe, which is refused below. Of a file it says
  // nothing.
  const int descriptor = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (descriptor < 0) return SystemError(path, "open", errno);
  FileReader reader(path, descriptor, 0);
  struct stat info;
  if (fstat(descriptor, &info) != 0) return SystemError(path, "read", errno);
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": expected a file, got ", S_ISDIR(info.st_mode) ? "a folder" : "a pipe or device"));
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

absl::Status CheckWritable(const std::string& path) {
  // Made and removed again if there is none. Nothing is written to a file that stands.
  int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  const bool made = descriptor >= 0;
  // Without waiting for someone to read a pipe.
  if (!made && errno == EEXIST) descriptor = open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) return SystemError(path, "open", errno);
  struct stat info = {};
  const bool stands = !made && fstat(descriptor, &info) == 0 && !S_ISCHR(info.st_mode);
  const int error = stands || write(descriptor, "\n", 1) == 1 ? 0 : errno;
  close(descriptor);
  if (made) unlink(path.c_str());
  return error == 0 ? absl::OkStatus() : SystemError(path, "write", error);
}

absl::Status CreateDirectories(const std::string& path, FileFaults* faults) {
  for (size_t end = path.find('/', 1); end != std::string::npos; end = path.find('/', end + 1)) {
    RETURN_IF_ERROR(MakeDirectory(path.substr(0, end), faults));
  }
  return MakeDirectory(path, faults);
}

absl::Status SyncDirectory(const std::string& path, FileFaults* faults) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return SystemError(path, "open", errno);
  const int synced = Ask(faults, {FileCall::kSync, path, ""},
                         [descriptor](const FileOperation&) { return fsync(descriptor); });
  // EINVAL: a file system that knows no sync of directories.
  const int failed = synced != 0 && errno != EINVAL ? errno : 0;
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
  if (error) return SystemError(path, "list", error.value());
  std::sort(names.begin(), names.end());
  return names;
}

absl::Status RemoveTree(const std::string& path, FileFaults* faults) {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(path, error);
  if (status.type() == fs::file_type::not_found) return absl::OkStatus();
  if (error) return SystemError(path, "remove", error.value());
  const bool directory = fs::is_directory(status);
  if (directory) {
    ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(path));
    for (const std::string& name : names) {
      RETURN_IF_ERROR(RemoveTree(absl::StrCat(path, "/", name), faults));
    }
  }
  const int removed =
      Ask(faults, {directory ? FileCall::kRemoveDirectory : FileCall::kRemoveFile, path, ""},
          [directory](const FileOperation& o) {
            return directory ? rmdir(o.path.c_str()) : unlink(o.path.c_str());
          });
  return removed == 0 ? absl::OkStatus() : SystemError(path, "remove", errno);
}

absl::Status Rename(const std::string& from, const std::string& to, FileFaults* faults) {
  const int renamed = Ask(faults, {FileCall::kRename, from, to}, [](const FileOperation& o) {
    return rename(o.path.c_str(), o.to.c_str());
  });
  return renamed == 0 ? absl::OkStatus() : SystemError(from, "rename to " + to, errno);
}

absl::Status ReplaceDirectory(const std::string& from, const std::string& to, FileFaults* faults) {
  std::error_code error;
  if (!fs::exists(to, error)) return Rename(from, to, faults);
  const int exchanged = Ask(faults, {FileCall::kExchange, from, to}, [](const FileOperation& o) {
    return renameat2(AT_FDCWD, o.path.c_str(), AT_FDCWD, o.to.c_str(), RENAME_EXCHANGE);
  });
  return exchanged == 0 ? absl::OkStatus() : SystemError(from, "exchange with " + to, errno);
}

}  // namespace sluice
