// Files of data, read whole or in parts. Any thread.
#ifndef SLUICE_FRAMEWORK_DATA_FILE_H_
#define SLUICE_FRAMEWORK_DATA_FILE_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace sluice {

// InvalidArgument, at once, where there is a pipe or a device.
absl::StatusOr<std::string> ReadFile(const std::string& path);

// The same into a buffer, which keeps what it has room for.
absl::Status ReadFileInto(const std::string& path, std::string* bytes);

// An open file, closed with it.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int value) : value_(value) {}
  FileDescriptor(FileDescriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  ~FileDescriptor();
  int value() const { return value_; }

 private:
  int value_ = -1;
};

// A file that stays open, of which any part may be read, by several threads at once.
class RandomAccessFile {
 public:
  static absl::StatusOr<RandomAccessFile> Open(const std::string& path);
  // Bytes in memory as though they were those of a file.
  static RandomAccessFile OfBytes(std::string path, std::string bytes);
  // One that is open and has so many bytes.
  static RandomAccessFile OfDescriptor(std::string path, FileDescriptor file, int64_t size);

  const std::string& path() const { return path_; }
  int64_t size() const { return size_; }  // when it was opened
  // All of them, below size(). DataLoss where the file has become shorter.
  absl::Status ReadAt(int64_t offset, int64_t size, char* to) const;

 private:
  RandomAccessFile() = default;

  std::string path_, bytes_;  // bytes_ where there is no descriptor
  FileDescriptor file_;
  int64_t size_ = 0;
};

// Returns the first `size` bytes, or all of them if there are fewer.
absl::StatusOr<std::string> ReadBegin(const RandomAccessFile& file, int64_t size);

// Lets this process keep so many more files open, as far as the system allows it: many systems
// begin with 1,024 and allow more to who asks.
void AllowOpenFiles(int64_t more);

// What open, stat and read failed with, as every reader of data says it.
absl::Status CannotRead(const std::string& path, int error);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DATA_FILE_H_
