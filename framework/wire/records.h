// The records of a sealed connection between what is sent and received and the socket: a writer
// holds what the kernel has not taken yet, a reader what has come and is not asked for yet. Bytes
// are sealed from where they lie, and opened to where they belong wherever a whole record goes
// there. Pure; one thread at a time.
#ifndef SLUICE_FRAMEWORK_WIRE_RECORDS_H_
#define SLUICE_FRAMEWORK_WIRE_RECORDS_H_

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/wire/seal.h"

namespace sluice {

class RecordWriter {
 public:
  explicit RecordWriter(const SealKey& key) : sealer_(key) {}

  // Makes the next record of what the parts have behind their first `skip` bytes, or of as much as
  // goes into one; says how much that is. What was there before has been sent.
  absl::StatusOr<size_t> Seal(absl::Span<const absl::Span<const std::byte>> parts, size_t skip);
  // What is still to be sent.
  absl::Span<const std::byte> left() const {
    return absl::MakeSpan(record_).subspan(sent_, end_ - sent_);
  }
  void Sent(size_t bytes) { sent_ += bytes; }

 private:
  Sealer sealer_;
  std::vector<absl::Span<const std::byte>> parts_;  // memory that Seal works in
  std::vector<std::byte> record_;                   // as large as the largest so far
  size_t sent_ = 0, end_ = 0;
};

class RecordReader {
 public:
  explicit RecordReader(const SealKey& key) : opener_(key) {}

  // Bytes of the connection, `room` of them at most. 0: no whole record has come. After an error
  // there is nothing but that error.
  absl::StatusOr<size_t> Take(std::byte* to, size_t room);
  // Where what comes next belongs, once Take has given 0, and how much of it has come.
  absl::Span<std::byte> Room();
  void Came(size_t bytes) { end_ += bytes; }
  // Bytes that have come and that nobody has taken, sealed or not.
  size_t waiting() const { return end_ - begin_ + opened_.size(); }

 private:
  Opener opener_;
  absl::Status broken_;
  std::vector<std::byte> buffer_;
  size_t begin_ = 0, end_ = 0;          // of sealed bytes in it
  absl::Span<const std::byte> opened_;  // before them: what was opened and did not fit
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_WIRE_RECORDS_H_
