#include "framework/wire/records.h"

#include <algorithm>
#include <cstring>

#include "framework/base/status.h"

namespace sluice {
namespace {

// What is read at once at first, and at most: messages are short, registers are not, and a rank has
// two connections to each of thousands.
constexpr size_t kLeastBuffer = 4096, kMostBuffer = 4 * kMostSealedBytes;

}  // namespace

absl::StatusOr<size_t> RecordWriter::Seal(absl::Span<const absl::Span<const std::byte>> parts,
                                          size_t skip) {
  parts_.clear();
  size_t bytes = 0;
  for (absl::Span<const std::byte> part : parts) {
    const size_t skipped = std::min(skip, part.size());
    skip -= skipped;
    part = part.subspan(skipped, kMostRecordBytes - bytes);
    bytes += part.size();
    if (!part.empty()) parts_.push_back(part);
  }
  sent_ = end_ = 0;
  if (bytes == 0) return 0;
  if (record_.size() < bytes + kRecordExtraBytes) record_.resize(bytes + kRecordExtraBytes);
  RETURN_IF_ERROR(sealer_.Seal(parts_, bytes, record_.data()));
  end_ = bytes + kRecordExtraBytes;
  return bytes;
}

absl::StatusOr<size_t> RecordReader::Take(std::byte* to, size_t room) {
  RETURN_IF_ERROR(broken_);
  if (opened_.empty()) {
    const absl::Span<const std::byte> come = absl::MakeSpan(buffer_).subspan(begin_, end_ - begin_);
    if (come.size() < kRecordHeadBytes) return 0;
    const absl::StatusOr<size_t> bytes = Opener::ReadHead(come);
    if (!bytes.ok()) return broken_ = bytes.status();
    const size_t whole = *bytes + kRecordExtraBytes;
    if (come.size() < whole) return 0;
    // One that does not go where it belongs as a whole is opened where it stands, and copied.
    const bool fits = *bytes <= room;
    std::byte* const in_place = buffer_.data() + begin_ + kRecordHeadBytes;
    broken_ = opener_.Open(come.first(whole), fits ? to : in_place);
    RETURN_IF_ERROR(broken_);
    begin_ += whole;
    if (fits) return *bytes;
    opened_ = {in_place, *bytes};
  }
  const size_t taken = std::min(room, opened_.size());
  std::memcpy(to, opened_.data(), taken);
  opened_.remove_prefix(taken);
  return taken;
}

// No more than a record is ever believed to come, and ReadHead has said that it may.
absl::Span<std::byte> RecordReader::Room() {
  const bool full = end_ > begin_ && end_ == buffer_.size();
  if (begin_ > 0) std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  const size_t size = buffer_.size();
  if (full || size == 0) buffer_.resize(std::clamp(2 * size, kLeastBuffer, kMostBuffer));
  return absl::MakeSpan(buffer_).subspan(end_);
}

}  // namespace sluice
