// Records that several files hold as one list: large data sets are kept in parts of one format.
#ifndef SLUICE_FRAMEWORK_DATA_RECORD_PARTS_H_
#define SLUICE_FRAMEWORK_DATA_RECORD_PARTS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/data/framed_records.h"

namespace sluice {

// The framing that a file has by its name, without .gz or .zst: NAME.tfrecord or NAME.tfrecords, or
// NAME-00012-of-01024, as TensorFlow names parts; NAME.ofrecord, or part- and a number, as OneFlow
// names its files. NotFound: another name.
absl::StatusOr<Framing> FramingOfName(absl::string_view path);

struct RecordFiles {
  Framing framing = Framing::kTfRecord;
  std::string path;                             // what was listed
  std::vector<std::string> training, held_out;  // paths, in order; held_out may be empty
};

// A file of records, which of TFRecord may have any name, or a folder of them. Where the folder
// holds folders "train" and "val" (or "validation"), or files whose names begin with these and "-",
// they are the two parts; else all is to learn from. Files of other names are left out. NotFound:
// there are none in the folder. InvalidArgument: files of two framings, or one that is of neither
// part.
absl::StatusOr<RecordFiles> ListRecordFiles(const std::string& path);

// Any thread, once opened.
class RecordParts {
 public:
  // `path`: what they are named by together. Opens all files; errors as FramedRecords::Open, and
  // DataLoss where there is no record in any.
  static absl::StatusOr<RecordParts> Open(Framing framing, std::string path,
                                          absl::Span<const std::string> files);

  const std::string& path() const { return path_; }
  int64_t num_records() const { return begins_.back(); }
  int64_t bytes() const;
  int64_t cut_bytes() const;  // of records at the ends of files that are cut short

  // As those of FramedRecords.
  int64_t frame_bytes(int64_t record) const;
  absl::Status ReadFrame(int64_t record, int64_t offset, int64_t size, char* to) const;
  // DataLoss: the checksum says that the record is damaged.
  absl::Status Read(int64_t record, std::string* to) const;
  // "data: FILE: record 3 at byte 80", to begin an error with; records are counted in each file.
  std::string Name(int64_t record) const;
  // The same below path().
  std::string NameBelow(int64_t record) const;

 private:
  struct Place {
    const FramedRecords& part;
    int64_t record;
  };
  explicit RecordParts(std::string path) : path_(std::move(path)) {}
  Place Find(int64_t record) const;

  std::string path_;
  std::vector<FramedRecords> parts_;
  std::vector<int64_t> begins_ = {0};  // the first record of each part, and how many there are
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DATA_RECORD_PARTS_H_
