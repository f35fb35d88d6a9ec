// Sums down the columns of a matrix, as the CPU makes them: so many rows first, then those sums in
// order, which keeps long columns accurate. A block takes as many columns as a warp has lanes; its
// warps take groups of rows, and the first warp adds those up. A lane's loads are single elements:
// a warp's are whole sectors of memory as they are, and with packs a block would have a quarter or
// an eighth of the threads for the same rows, each as long a sum, so no more would be under way.
// For the files of this package only.
#ifndef SLUICE_FRAMEWORK_KERNELS_CUDA_COLUMNS_H_
#define SLUICE_FRAMEWORK_KERNELS_CUDA_COLUMNS_H_

#include <algorithm>
#include <cstdint>

#include "framework/kernels/cuda/block.h"

namespace sluice::cuda {

constexpr int64_t kGroupRows = 64;
constexpr int kColumnThreads = 512;

// Sums to which no zero has been added: of no rows they are to be made 0.
struct SumFromNothing : SumFold {
  static constexpr float kIdentity = -0.0f;
};

// A thread for each of n sums that PlusTerms makes. On as many processors as there are warps: all
// of a few warps wait for memory.
inline Grid GridOfFewSums(int64_t n) { return GridOf(n, kWarp); }

// A block's columns, one of `parts` times as many blocks as the width takes.
struct ColumnBlock {
  int64_t column, part;
  bool valid;  // this thread's column is there

  __device__ explicit ColumnBlock(int64_t width) {
    const int64_t stripes = (width + kWarp - 1) / kWarp;
    column = static_cast<int64_t>(blockIdx.x) % stripes * kWarp + Lane();
    part = static_cast<int64_t>(blockIdx.x) / stripes;
    valid = column < width;
  }

  // `rows`: of each part. `sums`: that a thread makes at a time.
  static Grid GridOf(int64_t width, int64_t parts, int64_t rows, int sums) {
    const int64_t groups = std::max<int64_t>(1, (rows + kGroupRows - 1) / kGroupRows);
    const int64_t warps = std::min<int64_t>(kColumnThreads / kWarp, groups);
    return {dim3(static_cast<unsigned>((width + kWarp - 1) / kWarp * parts)),
            dim3(static_cast<unsigned>(warps * kWarp)),
            static_cast<size_t>(warps * sums * kWarp) * sizeof(float)};
  }

  // load(r): what is read of row r. add(r, loaded, part): folds that into `part`, kSums values, and
  // may write. The result is the first warp's. All threads call it.
  template <typename Fold, int kAhead, int kSums, typename Load, typename Add>
  __device__ void FoldRows(int64_t begin, int64_t end, const Load& load, const Add& add,
                           float (&total)[kSums]) const {
    float* const parts = SharedMemory<float>();  // [warps, kSums, lanes]
    const int lane = Lane(), warp = WarpOfBlock(), warps = WarpsOfBlock();
    for (int s = 0; s < kSums; ++s) total[s] = Fold::kIdentity;
    const int64_t groups = (end - begin + kGroupRows - 1) / kGroupRows;
    for (int64_t first = 0; first < groups; first += warps) {
      const int64_t left = groups - first;
      if (warp < left) {
        float sum[kSums];
        for (int s = 0; s < kSums; ++s) sum[s] = Fold::kIdentity;
        const int64_t from = begin + (first + warp) * kGroupRows;
        const int64_t to = from + kGroupRows < end ? from + kGroupRows : end;
        if (valid) FoldGroup<kAhead>(from, to, load, add, sum);
        for (int s = 0; s < kSums; ++s) parts[(warp * kSums + s) * kWarp + lane] = sum[s];
      }
      __syncthreads();
      if (warp == 0) {
        for (int w = 0; w < warps && w < left; ++w) {
          for (int s = 0; s < kSums; ++s) {
            total[s] = Fold::Of(total[s], parts[(w * kSums + s) * kWarp + lane]);
          }
        }
      }
      __syncthreads();
    }
  }

 private:
  // Each row's term waits for the sum before it, but kAhead rows are read while those before them
  // are added: of itself nvcc reads four, and none where something is written in between; and what
  // is to be added right after it was read waits for memory, and the reads behind it with it.
  template <int kAhead, int kSums, typename Load, typename Add>
  static __device__ void FoldGroup(int64_t r, int64_t end, const Load& load, const Add& add,
                                   float (&sum)[kSums]) {
    if (r + kAhead <= end) {
      decltype(load(r)) held[kAhead], next[kAhead];
      SLUICE_UNROLLED
      for (int a = 0; a < kAhead; ++a) held[a] = load(r + a);
      for (; r + 2 * kAhead <= end; r += kAhead) {
        SLUICE_UNROLLED
        for (int a = 0; a < kAhead; ++a) next[a] = load(r + kAhead + a);
        SLUICE_UNROLLED
        for (int a = 0; a < kAhead; ++a) add(r + a, held[a], sum);
        SLUICE_UNROLLED
        for (int a = 0; a < kAhead; ++a) held[a] = next[a];
      }
      SLUICE_UNROLLED
      for (int a = 0; a < kAhead; ++a) add(r + a, held[a], sum);
      r += kAhead;
    }
    for (; r < end; ++r) add(r, load(r), sum);
  }
};

}  // namespace sluice::cuda

#endif  // SLUICE_FRAMEWORK_KERNELS_CUDA_COLUMNS_H_
