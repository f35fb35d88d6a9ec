// The indices that several arrays are walked over together, each with strides of its own:
// broadcasting, transposition, slices and boxing are this. Made when a kernel is prepared.
#ifndef SLUICE_FRAMEWORK_KERNELS_STRIDED_EXTENT_H_
#define SLUICE_FRAMEWORK_KERNELS_STRIDED_EXTENT_H_

#include <cstdint>
#include <vector>

#include "framework/tensor/shape.h"
#include "framework/tensor/shard.h"

namespace sluice {

class StridedExtent {
 public:
  static constexpr int kMaxOperands = 96, kMaxRank = 16;

  StridedExtent() = default;
  // strides[i][d]: elements that array i steps for dimension d. Dimensions of one element vanish,
  // neighbours that every array walks in one stride merge.
  StridedExtent(const Shape& extent, const std::vector<Shape>& strides);

  int operands() const { return operands_; }
  int rank() const { return static_cast<int>(extent_.size()); }
  int64_t extent(int d) const { return extent_[d]; }
  int64_t stride(int operand, int d) const { return strides_[d * operands_ + operand]; }
  int64_t rows() const { return rows_; }
  int64_t row_length() const { return row_length_; }  // of the innermost dimension
  int64_t row_stride(int operand) const { return row_strides_[operand]; }

 private:
  int operands_ = 0;
  std::vector<int64_t> extent_, strides_;  // strides by dimension, then operand
  std::vector<int64_t> row_strides_;
  int64_t rows_ = 0, row_length_ = 0;
};

// Strides with which a shard of an operand is read over a shard of what it broadcasts to: trailing
// dimensions align, missing ones and those of one element for many step 0.
Shape BroadcastStrides(const Shard& from, const Shard& to);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_KERNELS_STRIDED_EXTENT_H_
