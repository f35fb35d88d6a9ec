// A walk over the elements of several arrays at once, on the threads of a pool. Walking allocates
// nothing.
#ifndef SLUICE_FRAMEWORK_KERNELS_CPU_STRIDED_H_
#define SLUICE_FRAMEWORK_KERNELS_CPU_STRIDED_H_

#include <cstdint>

#include "framework/kernels/cpu/parallel.h"
#include "framework/kernels/strided_extent.h"

namespace sluice::cpu {

class StridedLoop : public StridedExtent {
 public:
  using StridedExtent::StridedExtent;

  // fn(const int64_t* offsets, int64_t length) for the rows [begin, end).
  template <typename F>
  void ForRows(int64_t begin, int64_t end, F&& fn) const {
    if (begin >= end) return;  // extents may be 0
    int64_t offsets[kMaxOperands] = {}, index[kMaxRank];
    const int outer = rank() - 1, arrays = operands();
    for (int64_t rest = begin, d = outer - 1; d >= 0; --d) {
      index[d] = rest % extent(static_cast<int>(d));
      rest /= extent(static_cast<int>(d));
      for (int i = 0; i < arrays; ++i) offsets[i] += index[d] * stride(i, static_cast<int>(d));
    }
    for (int64_t row = begin; row < end; ++row) {
      fn(static_cast<const int64_t*>(offsets), row_length());
      for (int d = outer - 1; d >= 0; --d) {
        const int64_t back = ++index[d] == extent(d) ? extent(d) : 0;
        for (int i = 0; i < arrays; ++i) offsets[i] += (1 - back) * stride(i, d);
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
    if (rows() > 1) {
      ParallelRows(context, rows(), row_length(), grain, [&](int64_t begin, int64_t end) {
        ForRows(begin, end, fn);
        after();
      });
    } else if (rows() == 1) {
      Parallel(context, row_length(), grain, [&](int64_t begin, int64_t end) {
        int64_t offsets[kMaxOperands];
        for (int i = 0; i < operands(); ++i) offsets[i] = begin * row_stride(i);
        fn(static_cast<const int64_t*>(offsets), end - begin);
        after();
      });
    }
  }
};

}  // namespace sluice::cpu

#endif  // SLUICE_FRAMEWORK_KERNELS_CPU_STRIDED_H_
