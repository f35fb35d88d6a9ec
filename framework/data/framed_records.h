// Files of records one behind the other, each with its length before it: TFRecord, whose lengths
// and records have checksums, and OFRecord of OneFlow, which has none. What a record says is
// example.h's matter.
#ifndef SLUICE_FRAMEWORK_DATA_FRAMED_RECORDS_H_
#define SLUICE_FRAMEWORK_DATA_FRAMED_RECORDS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/data/file.h"

namespace sluice {

enum class Framing : uint8_t {
  kTfRecord,  // u64 length, its masked CRC32C, the record, its masked CRC32C
  kOfRecord,  // i64 length, at least 1, and the record
};

void AppendFramed(Framing framing, absl::string_view record, std::string* to);

// Returns the error that a file has no records, or what it is instead, as ExplainKind of packed.h.
absl::Status ExplainFraming(const absl::Status& status, const std::string& path, Framing framing);

// Where the records of a file lie. Any thread, once opened.
class FramedRecords {
 public:
  // Finds the records by their lengths, without reading them. A last record that is cut short, as
  // by a writer that was ended, is left out and counted. DataLoss: a length that cannot be one,
  // which record, and at which byte.
  static absl::StatusOr<FramedRecords> Open(Framing framing, RandomAccessFile file);

  const std::string& path() const { return file_.path(); }
  int64_t bytes() const { return file_.size(); }
  int64_t num_records() const { return static_cast<int64_t>(begins_.size()) - 1; }
  int64_t begin(int64_t record) const { return begins_[record]; }  // its frame's place in the file
  int64_t cut_bytes() const { return file_.size() - begins_.back(); }  // of a record that is cut

  // Returns the size of a record with its length and checksums.
  int64_t frame_bytes(int64_t record) const { return begins_[record + 1] - begins_[record]; }
  // Reads a range of these bytes as they are.
  absl::Status ReadFrame(int64_t record, int64_t offset, int64_t size, char* to) const {
    return file_.ReadAt(begins_[record] + offset, size, to);
  }

  // DataLoss: the checksum says that the record is damaged.
  absl::Status Read(int64_t record, std::string* to) const;
  // "PATH: record 3 at byte 80", to begin an error with.
  std::string Name(int64_t record) const;

 private:
  FramedRecords(Framing framing, RandomAccessFile file)
      : framing_(framing), file_(std::move(file)) {}
  absl::Status Scan();

  Framing framing_;
  RandomAccessFile file_;
  std::vector<int64_t> begins_ = {0};  // of each frame, and where the last ends
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DATA_FRAMED_RECORDS_H_
