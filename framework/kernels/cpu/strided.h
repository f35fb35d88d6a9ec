// A walk over the elements of several arrays at once, each with strides of its own: broadcasting,
// transposition, slices and boxing are this. Made at prepare; walking allocates nothing.
#ifndef SLUICE_FRAMEWORK_KERNELS_CPU_STRIDED_H_
#define SLUICE_FRAMEWORK_KERNELS_CPU_STRIDED_H_

#include <cstdint>
#include <vector>

#include "framework/kernels/cpu/parallel.h"
#include "framework/tensor/shape.h"

namespace sluice::cpu {

class StridedLoop {
 public:
  static constexpr int kMaxOperands = 96;

  StridedLoop() = default;
  // strides[i][d]: elements that array i steps for dimension d. Dimensions of one element vanish,
  // neighbours that every array walks in one stride merge.
  StridedLoop(const Shape& extent, const std::vector<Shape>& strides);

  int operands() const { return operands_; }
  int rank() const { return static_cast<int>(extent_.size()); }
  int64_t extent(int d) const { return extent_[d]; }
  int64_t stride(int operand, int d) const { return strides_[d * operands_ + operand]; }
  int64_t rows() const { return rows_; }
  int64_t row_length() const { return row_length_; }  // of the innermost dimension
  int64_t row_stride(int operand) const { return row_strides_[operand]; }

  // fn(const int64_t* offsets, int64_t length) for the rows [begin, end).
  template <typename F>
  void ForRows(int64_t begin, int64_t end, F&& fn) const {
    if (begin >= end) return;  // extents may be 0
    int64_t offsets[kMaxOperands] = {}, index[kMaxRank];
    const int outer = rank() - 1;
    for (int64_t rest = begin, d = outer - 1; d >= 0; --d) {
      index[d] = rest % extent_[d];
      rest /= extent_[d];
      for (int i = 0; i < operands_; ++i) offsets[i] += index[d] * stride(i, static_cast<int>(d));
    }
    for (int64_t row = begin; row < end; ++row) {
      fn(static_cast<const int64_t*>(offsets), row_length_);
      for (int d = outer - 1; d >= 0; --d) {
        const int64_t back = ++index[d] == extent_[d] ? extent_[d] : 0;
        for (int i = 0; i < operands_; ++i) offsets[i] += (1 - back) * stride(i, d);
        if (back == 0) break;
        index[d] = 0;
      }
    }
  }

  // The same over all rows, split over the thread pool's threads; a single row is cut. after() ends
  // what a thread does.
  template <typename F, typename After = void (*)()>
  void ForAll(
      const KernelContext& context, int64_t grain, F&& fn, After after = [] {}) const {
    if (rows_ > 1) {
      ParallelRows(context, rows_, row_length_, grain, [&](int64_t begin, int64_t end) {
        ForRows(begin, end, fn);
        after();
      });
    } else if (rows_ == 1) {
      Parallel(context, row_length_, grain, [&](int64_t begin, int64_t end) {
        int64_t offsets[kMaxOperands];
        for (int i = 0; i < operands_; ++i) offsets[i] = begin * row_strides_[i];
        fn(static_cast<const int64_t*>(offsets), end - begin);
        after();
      });
    }
  }

 private:
  static constexpr int kMaxRank = 16;
  int operands_ = 0;
  std::vector<int64_t> extent_, strides_;  // strides by dimension, then operand
  std::vector<int64_t> row_strides_;
  int64_t rows_ = 0, row_length_ = 0;
};

// Strides with which a shard of an operand is read over a shard of what it broadcasts to: trailing
// dimensions align, missing ones and those of one element for many step 0.
Shape BroadcastStrides(const Shard& from, const Shard& to);

}  // namespace sluice::cpu

#endif  // SLUICE_FRAMEWORK_KERNELS_CPU_STRIDED_H_
