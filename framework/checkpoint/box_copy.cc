#include "framework/checkpoint/box_copy.h"

#include <algorithm>
#include <cstring>

namespace sluice {

BoxCopy::BoxCopy(const Box& from, const Box& to, int64_t element, std::byte* target)
    : target_(target), row_bytes_(element) {
  const Box common = Intersect(from, to);
  int outer = static_cast<int>(common.size());
  for (bool whole = true; whole && outer > 0;) {
    --outer;
    row_bytes_ *= common[outer].size();
    whole = common[outer] == from[outer] && common[outer] == to[outer];
  }
  const Shape from_strides = ShapeOf(from).Strides(), to_strides = ShapeOf(to).Strides();
  for (int d = 0; d < static_cast<int>(common.size()); ++d) {
    row_from_ += (common[d].begin - from[d].begin) * from_strides[d] * element;
    row_to_ += (common[d].begin - to[d].begin) * to_strides[d] * element;
    if (d >= outer) continue;
    counts_.Append(common[d].size());
    at_.Append(0);
    from_strides_.Append(from_strides[d] * element);
    to_strides_.Append(to_strides[d] * element);
  }
}

void BoxCopy::NextRow() {
  for (int d = counts_.rank() - 1; d >= 0; --d) {
    row_from_ += from_strides_[d];
    row_to_ += to_strides_[d];
    if (++at_[d] < counts_[d]) return;
    row_from_ -= counts_[d] * from_strides_[d];
    row_to_ -= counts_[d] * to_strides_[d];
    at_[d] = 0;
  }
  done_ = true;
}

void BoxCopy::Add(absl::Span<const std::byte> piece) {
  const int64_t begin = seen_, end = seen_ + static_cast<int64_t>(piece.size());
  seen_ = end;
  while (!done_ && row_from_ < end) {
    const int64_t first = std::max(row_from_, begin), last = std::min(row_from_ + row_bytes_, end);
    if (first < last) {
      std::memcpy(target_ + row_to_ + (first - row_from_), piece.data() + (first - begin),
                  last - first);
    }
    if (row_from_ + row_bytes_ > end) return;
    NextRow();
  }
}

}  // namespace sluice
