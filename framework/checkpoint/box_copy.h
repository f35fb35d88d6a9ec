// Copies what two boxes of a tensor have in common out of the one's bytes, which come in order,
// piece by piece, into the other's: no more of the first than a piece is ever in memory. Of one
// thread.
#ifndef SLUICE_FRAMEWORK_CHECKPOINT_BOX_COPY_H_
#define SLUICE_FRAMEWORK_CHECKPOINT_BOX_COPY_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "framework/tensor/shape.h"

namespace sluice {

class BoxCopy {
 public:
  // Boxes of one rank that have elements in common, each of `element` bytes; `target` are the bytes
  // of `to`.
  BoxCopy(const Box& from, const Box& to, int64_t element, std::byte* target);
  // The next bytes of `from`.
  void Add(absl::Span<const std::byte> piece);

 private:
  void NextRow();

  std::byte* const target_;
  // A row is what lies together in both: the dimensions from some on. The others are counted.
  Shape counts_, at_, from_strides_, to_strides_;
  int64_t row_bytes_ = 0, row_from_ = 0, row_to_ = 0;
  int64_t seen_ = 0;
  bool done_ = false;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_CHECKPOINT_BOX_COPY_H_
