// Files and directories of checkpoints: errors name the path and the system's words, and what is
// written is on disk when Close or SyncDirectory returns. One thread a value.
#ifndef SLUICE_FRAMEWORK_CHECKPOINT_FILE_H_
#define SLUICE_FRAMEWORK_CHECKPOINT_FILE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sluice {

class FileWriter {
 public:
  // Creates the file or empties it.
  static absl::StatusOr<FileWriter> Create(const std::string& path);
  FileWriter(FileWriter&& other) noexcept;
  FileWriter& operator=(FileWriter&&) = delete;
  ~FileWriter();
  absl::Status Append(const void* data, size_t size);
  absl::Status Append(absl::string_view text) { return Append(text.data(), text.size()); }
  // Syncs and closes. Without it the destructor closes and the bytes may be lost.
  absl::Status Close();

 private:
  FileWriter(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}
  std::string path_;
  int descriptor_;
};

class FileReader {
 public:
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

// At most `limit` bytes of text; an error where the file is longer.
absl::StatusOr<std::string> ReadText(const std::string& path, int64_t limit);
absl::Status CreateDirectories(const std::string& path);
absl::Status SyncDirectory(const std::string& path);
// Names of what lies in a directory, sorted; none where it does not exist.
absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& path);
absl::Status RemoveTree(const std::string& path);
// Puts `from` in the place of `to`; at every moment `to` is the old one or the new one, whole. What
// was at `to` is removed.
absl::Status ReplaceDirectory(const std::string& from, const std::string& to);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_CHECKPOINT_FILE_H_
