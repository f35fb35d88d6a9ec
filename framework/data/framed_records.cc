#include "framework/data/framed_records.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/status.h"
#include "framework/data/crc32c.h"
#include "framework/data/little_endian.h"
#include "framework/data/packed.h"

namespace sluice {
namespace {

constexpr int64_t kLength = 8, kChecksum = 4;
// Records are protobuf messages, which are no longer.
constexpr int64_t kMostBytes = std::numeric_limits<int32_t>::max();

int64_t HeadOf(Framing framing) {
  return framing == Framing::kTfRecord ? kLength + kChecksum : kLength;
}
int64_t TailOf(Framing framing) { return framing == Framing::kTfRecord ? kChecksum : 0; }

template <typename T>
T Take(const char* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

absl::Status CheckSum(const char* what, absl::string_view bytes, const char* at) {
  const auto expected = Take<uint32_t>(at), got = MaskedCrc32c(bytes);
  if (got == expected) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrFormat("expected %s of checksum %08x, got %08x", what, expected, got));
}

absl::StatusOr<int64_t> LengthOf(Framing framing, const char* head) {
  if (framing == Framing::kTfRecord) {
    RETURN_IF_ERROR(CheckSum("a length", absl::string_view(head, kLength), head + kLength));
  }
  const auto length = Take<int64_t>(head);
  const int64_t least = framing == Framing::kTfRecord ? 0 : 1;
  if (length >= least && length <= kMostBytes) return length;
  return absl::DataLossError(
      absl::StrCat("expected a length of ", least, " to ", kMostBytes, " bytes, got ", length));
}

// The heads of frames, of which those of short ones are read many at once.
class Heads {
 public:
  explicit Heads(const RandomAccessFile& file) : file_(file) {}

  absl::StatusOr<const char*> At(int64_t offset, int64_t size) {
    if (offset < begin_ || offset + size > begin_ + static_cast<int64_t>(bytes_.size())) {
      constexpr int64_t kMost = 1 << 16;
      const bool near = offset - begin_ <= kMost;  // so the next may well be
      bytes_.resize(std::min(near ? kMost : size, file_.size() - offset));
      begin_ = offset;
      RETURN_IF_ERROR(file_.ReadAt(offset, static_cast<int64_t>(bytes_.size()), bytes_.data()));
    }
    return bytes_.data() + (offset - begin_);
  }

 private:
  const RandomAccessFile& file_;
  int64_t begin_ = 0;
  std::string bytes_;
};

}  // namespace

void AppendFramed(Framing framing, absl::string_view record, std::string* to) {
  const auto length = static_cast<int64_t>(record.size());
  Put(length, to);
  const bool sums = framing == Framing::kTfRecord;
  if (sums) {
    Put(MaskedCrc32c(absl::string_view(reinterpret_cast<const char*>(&length), kLength)), to);
  }
  to->append(record.data(), record.size());
  if (sums) Put(MaskedCrc32c(record), to);
}

absl::StatusOr<FramedRecords> FramedRecords::Open(Framing framing, RandomAccessFile file) {
  FramedRecords records(framing, std::move(file));
  RETURN_IF_ERROR(records.Scan());
  return records;
}

absl::Status ExplainFraming(const absl::Status& status, const std::string& path, Framing framing) {
  const bool tf_record = framing == Framing::kTfRecord;
  return ExplainKind(status, path, tf_record ? FileKind::kTfRecord : FileKind::kUnknown,
                     tf_record ? "TFRecord data" : "OFRecord data");
}

absl::Status FramedRecords::Scan() {
  const int64_t head = HeadOf(framing_), around = head + TailOf(framing_);
  Heads heads(file_);
  while (begins_.back() + head <= file_.size()) {
    const int64_t begin = begins_.back();
    ASSIGN_OR_RETURN(const char* const bytes, heads.At(begin, head));
    const absl::StatusOr<int64_t> length = LengthOf(framing_, bytes);
    if (!length.ok()) {
      const absl::Status damaged = AddContext(length.status(), Name(num_records()));
      return begin > 0 ? damaged : ExplainFraming(damaged, path(), framing_);
    }
    if (begin + around + *length > file_.size()) break;
    begins_.push_back(begin + around + *length);
  }
  return absl::OkStatus();
}

absl::Status FramedRecords::Read(int64_t record, std::string* to) const {
  const int64_t head = HeadOf(framing_), tail = TailOf(framing_);
  const int64_t begin = begins_[record] + head, end = begins_[record + 1];
  to->resize(end - begin);
  RETURN_IF_ERROR(file_.ReadAt(begin, end - begin, to->data()));
  if (tail == 0) return absl::OkStatus();
  const size_t length = end - begin - tail;
  const absl::Status sum =
      CheckSum("a record", absl::string_view(to->data(), length), to->data() + length);
  to->resize(length);
  return sum.ok() ? sum : AddContext(sum, Name(record));
}

std::string FramedRecords::Name(int64_t record) const {
  return absl::StrCat("data: ", path(), ": record ", record, " at byte ", begins_[record]);
}

}  // namespace sluice
