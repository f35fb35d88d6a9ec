// RecordIO of MXNet, in which InsightFace keeps faces: a file of records, NAME.rec, and the place
// of each by its key in a text beside it, NAME.idx. A record of a picture has labels, and the bytes
// of a file that DecodeImage reads. Any thread.
#ifndef SLUICE_FRAMEWORK_DATA_RECORD_IO_H_
#define SLUICE_FRAMEWORK_DATA_RECORD_IO_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/data/file.h"

namespace sluice {

struct PictureRecord {
  std::vector<float> labels;  // at least one
  uint64_t id = 0, id2 = 0;
  std::string bytes;  // of the picture's file; empty where a record only says something of others
};

// What stands in a file of records. Errors say what was expected, and got.
std::string RecordBytes(const PictureRecord& record);
absl::StatusOr<PictureRecord> ParseRecord(absl::string_view bytes);

class RecordFile {
 public:
  // `path` is that of the .rec. NotFound, DataLoss: which of the two files, and what is wrong.
  static absl::StatusOr<RecordFile> Open(const std::string& path);

  const std::vector<int64_t>& keys() const { return keys_; }  // ascending
  int64_t bytes() const { return file_.size(); }              // of the .rec
  // Returns where the record of a key begins in the .rec; the key must be one of keys().
  int64_t begin(int64_t key) const;
  // Reads a range of the .rec as it is.
  absl::Status ReadBytes(int64_t offset, int64_t size, char* to) const {
    return file_.ReadAt(offset, size, to);
  }
  // NotFound, DataLoss: the path and the key.
  absl::StatusOr<PictureRecord> Read(int64_t key) const;

 private:
  struct Place {
    int64_t begin = 0, end = 0;
  };
  explicit RecordFile(RandomAccessFile file) : file_(std::move(file)) {}

  RandomAccessFile file_;
  std::vector<int64_t> keys_;
  std::vector<Place> places_;  // by key
};

// Writes both files; keys ascend.
absl::Status WriteRecords(const std::string& path,
                          const std::vector<std::pair<int64_t, PictureRecord>>& records);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DATA_RECORD_IO_H_
