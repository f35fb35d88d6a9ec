// Files and directories of checkpoints and logs: errors name the path and the system's words, and
// what is written is on disk when Close or SyncDirectory returns. One thread a value. Every call
// that changes a disk asks the FileFaults that it was given, if any, so that tests can make each of
// them fail.
#ifndef SLUICE_FRAMEWORK_CHECKPOINT_FILE_H_
#define SLUICE_FRAMEWORK_CHECKPOINT_FILE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sluice {

enum class FileCall {
  kMakeDirectory,
  kOpen,  // of a file, to write
  kWrite,
  kSync,  // of a file or a directory
  kClose,
  kRename,
  kExchange,
  kRemoveFile,
  kRemoveDirectory,
};

struct FileOperation {
  FileCall call;
  std::string path;
  std::string to;   // of kRename and kExchange
  size_t size = 0;  // of kWrite, at least 1
};

// A test's: stands between this layer and the system.
class FileFaults {
 public:
  virtual ~FileFaults() = default;
  // 0: the call is made; else it is not, and fails with this errno. Of a write, `size` may be
  // lowered to what the system will take of it.
  virtual int Before(FileOperation* operation) = 0;
};

class FileWriter {
 public:
  // Creates the file or empties it.
  static absl::StatusOr<FileWriter> Create(const std::string& path, FileFaults* faults = nullptr);
  // Creates the file or goes on at its end.
  static absl::StatusOr<FileWriter> Extend(const std::string& path, FileFaults* faults = nullptr);
  FileWriter(FileWriter&& other) noexcept;
  FileWriter& operator=(FileWriter&&) = delete;
  ~FileWriter();
  absl::Status Append(const void* data, size_t size);
  absl::Status Append(absl::string_view text) { return Append(text.data(), text.size()); }
  // Syncs and closes. Without it the destructor closes, and a crash of the machine may lose bytes.
  absl::Status Close();

 private:
  FileWriter(std::string path, int descriptor, FileFaults* faults)
      : path_(std::move(path)), descriptor_(descriptor), faults_(faults) {}
  static absl::StatusOr<FileWriter> Open(const std::string& path, int flags, FileFaults* faults);
  std::string path_;
  int descriptor_;
  FileFaults* faults_;
};

class FileReader {
 public:
  // InvalidArgument, at once, where the path is no regular file: a pipe, a device, a folder.
  static absl::StatusOr<FileReader> Open(const std::string& path);
  FileReader(FileReader&& other) noexcept;
  FileReader& operator=(FileReader&&) = delete;
  ~FileReader();
  const std::string& path() const { return path_; }
  int64_t size() const { return size_; }
  // Exactly `size` bytes; DataLoss where the file ends before.
  absl::Status ReadAt(int64_t offset, void* data, int64_t size) const;

 private:
  FileReader(std::string path, int descriptor, int64_t size)
      : path_(std::move(path)), descriptor_(descriptor), size_(size) {}
  std::string path_;
  int descriptor_;
  int64_t size_;
};

// The error that writing to a file there would end with, where that shows before: a folder that is
// not there, a full or read-only disk, a device that takes nothing, a pipe that nobody reads. What
// lies at `path` stays as it is.
absl::Status CheckWritable(const std::string& path);
// At most `limit` bytes of text; an error where the file is longer.
absl::StatusOr<std::string> ReadText(const std::string& path, int64_t limit);
// With those above it; what is made is on disk.
absl::Status CreateDirectories(const std::string& path, FileFaults* faults = nullptr);
absl::Status SyncDirectory(const std::string& path, FileFaults* faults = nullptr);
// Names of what lies in a directory, sorted; none where it does not exist.
absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& path);
// Fine where there is nothing.
absl::Status RemoveTree(const std::string& path, FileFaults* faults = nullptr);
absl::Status Rename(const std::string& from, const std::string& to, FileFaults* faults = nullptr);
// Puts the directory `from` in the place of `to`; at every moment `to` is the old one or the new
// one, whole. What was at `to` is then at `from`.
absl::Status ReplaceDirectory(const std::string& from, const std::string& to,
                              FileFaults* faults = nullptr);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_CHECKPOINT_FILE_H_
