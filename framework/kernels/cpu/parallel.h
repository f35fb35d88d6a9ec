// What the CPU kernels share: splitting work over a thread pool. For the files of this package
// only.
#ifndef SLUICE_FRAMEWORK_KERNELS_CPU_PARALLEL_H_
#define SLUICE_FRAMEWORK_KERNELS_CPU_PARALLEL_H_

#include <algorithm>
#include <cstdint>

#include "framework/kernels/prepared.h"

namespace sluice::cpu {

// Elements that are worth waking another thread for, by what an element costs.
constexpr int64_t kCheapGrain = 32768, kCostlyGrain = 4096;

// fn(begin, end) over [0, n), cut at multiples of 16 into at most one piece a thread and pieces of
// at least `grain`. Results must not depend on the cuts.
template <typename F>
void Parallel(const KernelContext& context, int64_t n, int64_t grain, F&& fn) {
  ThreadPool* const pool = context.thread_pool();
  const int64_t threads = pool == nullptr ? 1 : pool->threads();
  const int64_t pieces = std::min(threads, n / grain);
  if (pieces <= 1) {
    if (n > 0) fn(int64_t{0}, n);
    return;
  }
  const int64_t groups = (n + 15) / 16;
  pool->ForEach(pieces, [&](int64_t i) {
    const Range range = Cut({0, groups}, pieces, i);
    fn(range.begin * 16, std::min(range.end * 16, n));
  });
}

// The same over rows of `cost` elements each, cut anywhere.
template <typename F>
void ParallelRows(const KernelContext& context, int64_t rows, int64_t cost, int64_t grain, F&& fn) {
  ThreadPool* const pool = context.thread_pool();
  const int64_t threads = pool == nullptr ? 1 : pool->threads();
  const int64_t pieces = std::min({threads, rows * cost / grain, rows});
  if (pieces <= 1) {
    if (rows > 0) fn(int64_t{0}, rows);
    return;
  }
  pool->ForEach(pieces, [&](int64_t i) {
    const Range range = Cut({0, rows}, pieces, i);
    fn(range.begin, range.end);
  });
}

// run(i) for every piece, by the threads of the pool where there is one.
template <typename F>
void ForEachPiece(const KernelContext& context, int64_t pieces, F&& run) {
  if (ThreadPool* const pool = context.thread_pool(); pieces > 1 && pool != nullptr) {
    pool->ForEach(pieces, run);
  } else {
    for (int64_t i = 0; i < pieces; ++i) run(i);
  }
}

}  // namespace sluice::cpu

#endif  // SLUICE_FRAMEWORK_KERNELS_CPU_PARALLEL_H_
