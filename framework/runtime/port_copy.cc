#include "framework/runtime/port_copy.h"

#include <cstring>

namespace sluice {

PortCopy::PortCopy(const Shard& shard) {
  const int64_t element = SizeOf(shard.dtype);
  const Shape strides = shard.logical.Strides();
  for (int d = 0; d < shard.stride_per_micro.rank(); ++d) {
    micro_bytes_ += shard.stride_per_micro[d] * strides[d] * element;
  }
  ForEachRow(WholeBox(shard.logical), shard.BoxAt(0), [&](int64_t offset, int64_t length) {
    // Rows that touch are one row: an unsplit tensor is one copy.
    if (rows_.empty()) row_bytes_ = length * element;
    rows_.push_back(offset * element);
  });
  size_t merged = 1;  // rows in one run from the start
  while (merged < rows_.size() &&
         rows_[merged] == rows_[0] + static_cast<int64_t>(merged) * row_bytes_) {
    ++merged;
  }
  if (rows_.empty() || rows_.size() % merged != 0) return;
  for (size_t i = 0; i < rows_.size(); ++i) {  // all runs as long as the first?
    if (rows_[i] != rows_[i - i % merged] + static_cast<int64_t>(i % merged) * row_bytes_) return;
  }
  for (size_t i = 0; i * merged < rows_.size(); ++i) rows_[i] = rows_[i * merged];
  rows_.resize(rows_.size() / merged);
  row_bytes_ *= static_cast<int64_t>(merged);
}

void PortCopy::Feed(const std::byte* logical, int32_t micro, std::byte* shard) const {
  logical += micro * micro_bytes_;
  for (const int64_t row : rows_) {
    std::memcpy(shard, logical + row, row_bytes_);
    shard += row_bytes_;
  }
}

void PortCopy::Fetch(const std::byte* shard, int32_t micro, std::byte* logical) const {
  logical += micro * micro_bytes_;
  for (const int64_t row : rows_) {
    std::memcpy(logical + row, shard, row_bytes_);
    shard += row_bytes_;
  }
}

}  // namespace sluice
