// Bytes that are written once, in order, and then read at any place: in memory while they are few,
// else in a file without a name, so that what is larger than memory can be kept. The file is gone
// with the process, however that ends. One thread writes.
#ifndef SLUICE_FRAMEWORK_DATA_SPOOLED_FILE_H_
#define SLUICE_FRAMEWORK_DATA_SPOOLED_FILE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/data/file.h"

namespace sluice {

struct SpoolOptions {
  std::optional<int64_t> most_in_memory =
      {};                                  // none: an eighth of what the process could still get
  std::string folder = {};                 // empty: TMPDIR, or where that is not set /var/tmp
  int64_t left_free = int64_t{256} << 20;  // of the folder's disk, for others
};

class SpooledFile {
 public:
  // `path` is what the bytes come from: errors name it, and so does the file that is read.
  explicit SpooledFile(std::string path, const SpoolOptions& options = {});

  int64_t size() const { return size_; }
  // That about so many bytes come: memory for them is taken at once where they fit. Before the
  // first of them.
  void Reserve(int64_t size);
  // ResourceExhausted: the disk has no room for them, which, and how much it has.
  absl::Status Append(absl::string_view bytes);
  absl::StatusOr<RandomAccessFile> Finish() &&;

 private:
  absl::Status Begin();  // the file, with what memory has
  absl::Status Write();  // what memory has, behind what the file has

  std::string path_, folder_;
  int64_t most_in_memory_, left_free_;
  int64_t size_ = 0;
  std::string bytes_;  // all of them, or what is not yet written
  FileDescriptor file_;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DATA_SPOOLED_FILE_H_
