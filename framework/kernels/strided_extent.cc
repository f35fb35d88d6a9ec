#include "framework/kernels/strided_extent.h"

#include "framework/base/log.h"

namespace sluice {

StridedExtent::StridedExtent(const Shape& extent, const std::vector<Shape>& strides)
    : operands_(static_cast<int>(strides.size())) {
  SLUICE_CHECK_LE(operands_, kMaxOperands);
  SLUICE_CHECK_LE(extent.rank(), kMaxRank);
  for (int d = 0; d < extent.rank(); ++d) {
    if (extent[d] == 1) continue;
    bool merges = !extent_.empty();
    for (int i = 0; merges && i < operands_; ++i) {
      merges = stride(i, rank() - 1) == strides[i][d] * extent[d];
    }
    if (merges) {
      extent_.back() *= extent[d];
      for (int i = 0; i < operands_; ++i) strides_[(rank() - 1) * operands_ + i] = strides[i][d];
    } else {
      extent_.push_back(extent[d]);
      for (int i = 0; i < operands_; ++i) strides_.push_back(strides[i][d]);
    }
  }
  if (extent_.empty()) {  // one element
    extent_.push_back(1);
    strides_.assign(operands_, 1);
  }
  rows_ = 1;
  for (int d = 0; d + 1 < rank(); ++d) rows_ *= extent_[d];
  row_length_ = extent_.back();
  if (row_length_ == 0) rows_ = 0;
  row_strides_.assign(strides_.end() - operands_, strides_.end());
}

Shape BroadcastStrides(const Shard& from, const Shard& to) {
  const Shape own = from.local.Strides();
  const int missing = to.logical.rank() - from.logical.rank();
  Shape strides;
  for (int d = 0; d < to.logical.rank(); ++d) {
    const bool repeats = d < missing || (from.logical[d - missing] == 1 && to.logical[d] != 1);
    strides.Append(repeats ? 0 : own[d - missing]);
  }
  return strides;
}

}  // namespace sluice
