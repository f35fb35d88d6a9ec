// Rows and the threads that take them: a warp a row while rows are short, a block a row where they
// are long. Sums and maxima of a row are made in the order of the CPU's SumOver and MaxOver
// (kernels/cpu/lanes.h) and have their bits, whatever takes the row. For the files of this package
// only.
#ifndef SLUICE_FRAMEWORK_KERNELS_CUDA_BLOCK_H_
#define SLUICE_FRAMEWORK_KERNELS_CUDA_BLOCK_H_

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "framework/kernels/cuda/elementwise.h"
#include "framework/kernels/cuda/launch.h"
#include "framework/kernels/cuda/scalar_lanes.h"

namespace sluice::cuda {

constexpr int kWarp = 32;
constexpr unsigned kAllLanes = 0xffffffff;
// Of a block that takes rows.
constexpr int kRowThreads = 256;
// A warp takes rows of at most so many elements.
constexpr int64_t kLongestOfWarp = 1024;

__device__ inline int Lane() { return static_cast<int>(threadIdx.x % kWarp); }
__device__ inline int WarpOfBlock() { return static_cast<int>(threadIdx.x / kWarp); }
__device__ inline int WarpsOfBlock() { return static_cast<int>(blockDim.x / kWarp); }

// Blocks of so many threads that there is a thread for each of n > 0 items. No more threads than
// are worth it.
inline Grid GridOf(int64_t n, int threads = 256) {
  const int64_t warps = std::min<int64_t>(threads / kWarp, (n + kWarp - 1) / kWarp);
  const int64_t of_block = warps * kWarp;
  return {dim3(static_cast<unsigned>((n + of_block - 1) / of_block)),
          dim3(static_cast<unsigned>(of_block))};
}

struct SumFold {
  static constexpr float kIdentity = 0;
  static __device__ float Of(float a, float b) { return a + b; }
};
// NaN wins.
struct MaxFold {
  static constexpr float kIdentity = -__builtin_inff();
  static __device__ float Of(float a, float b) { return Max(a, b); }
};
struct MinFold {
  static constexpr float kIdentity = __builtin_inff();
  static __device__ float Of(float a, float b) { return Min(a, b); }
};

// Sixty-four results, two in each lane of a warp, which terms are folded into as the CPU does it,
// and the tree over them.
template <typename Fold>
class LaneFold {
 public:
  // Terms [begin, end), where begin is a multiple of 64, and so is end unless they are the last.
  template <typename Term>
  __device__ void Add(int64_t begin, int64_t end, const Term& term) {
    const int lane = Lane();
    int64_t i = begin;
    for (; i + 64 <= end; i += 64) {
      low_ = Fold::Of(low_, term(i + lane));
      high_ = Fold::Of(high_, term(i + 32 + lane));
    }
    // The CPU's first sixteen accumulators take whole registers that are left, its second sixteen
    // what is left of those.
    for (; i + 16 <= end; i += 16) {
      if (lane < 16) low_ = Fold::Of(low_, term(i + lane));
    }
    if (lane >= 16 && i + lane - 16 < end) low_ = Fold::Of(low_, term(i + lane - 16));
  }

  // In every lane.
  __device__ float Result() const {
    float result = Fold::Of(WithPartner(low_, 16), WithPartner(high_, 16));
    for (int distance = 8; distance > 0; distance /= 2) result = WithPartner(result, distance);
    return result;
  }

 private:
  // Of both lanes, the lower lane's first: which of two zeros a maximum is depends on it.
  static __device__ float WithPartner(float value, int distance) {
    const float other = __shfl_xor_sync(kAllLanes, value, distance);
    return (Lane() & distance) == 0 ? Fold::Of(value, other) : Fold::Of(other, value);
  }

  float low_ = Fold::kIdentity, high_ = Fold::kIdentity;
};

// A row that a warp takes. The warps of a block take rows that follow each other.
class WarpRow {
 public:
  static Grid GridOf(int64_t rows) {
    const int64_t of_block = std::min<int64_t>(rows, kRowThreads / kWarp);
    return {dim3(static_cast<unsigned>((rows + of_block - 1) / of_block)),
            dim3(static_cast<unsigned>(of_block * kWarp))};
  }

  __device__ int64_t index() const {
    return static_cast<int64_t>(blockIdx.x) * WarpsOfBlock() + WarpOfBlock();
  }
  // fn(i) for each of n elements, by one thread each.
  template <typename Fn>
  __device__ void ForEach(int64_t n, const Fn& fn) const {
    for (int64_t i = Lane(); i < n; i += kWarp) fn(i);
  }
  // Of term(i) over n elements, in every thread. All threads of the row call it.
  template <typename Fold, typename Term>
  __device__ float Folded(int64_t n, const Term& term) const {
    LaneFold<Fold> fold;
    fold.Add(0, n, term);
    return fold.Result();
  }
  template <typename Term>
  __device__ float Sum(int64_t n, const Term& term) const {
    return Folded<SumFold>(n, term);
  }
  // One thread of the row.
  __device__ bool IsFirst() const { return Lane() == 0; }
};

// A row that a block takes. All threads compute terms, of which one warp then makes the sum: each
// of its additions waits for the one before, but reads from shared memory.
class BlockRow {
  static constexpr int kTerms = 4096;  // a multiple of 64

 public:
  // Of shared memory, from its start.
  static constexpr int kSharedFloats = kTerms + 1;

  static Grid GridOf(int64_t rows) {
    return {dim3(static_cast<unsigned>(rows)), dim3(kRowThreads), kSharedFloats * sizeof(float)};
  }

  __device__ int64_t index() const { return blockIdx.x; }
  template <typename Fn>
  __device__ void ForEach(int64_t n, const Fn& fn) const {
    for (int64_t i = threadIdx.x; i < n; i += kRowThreads) fn(i);
  }
  template <typename Fold, typename Term>
  __device__ float Folded(int64_t n, const Term& term) const {
    float* const terms = SharedMemory<float>();
    float* const result = terms + kTerms;
    LaneFold<Fold> fold;
    for (int64_t begin = 0; begin < n; begin += kTerms) {
      const int64_t end = begin + kTerms < n ? begin + kTerms : n;
      for (int64_t i = begin + threadIdx.x; i < end; i += kRowThreads) terms[i - begin] = term(i);
      __syncthreads();
      if (WarpOfBlock() == 0) fold.Add(begin, end, [&](int64_t i) { return terms[i - begin]; });
      __syncthreads();
    }
    if (WarpOfBlock() == 0) {
      const float folded = fold.Result();
      if (Lane() == 0) *result = folded;
    }
    __syncthreads();
    const float folded = *result;
    __syncthreads();  // before the next one is written
    return folded;
  }
  template <typename Term>
  __device__ float Sum(int64_t n, const Term& term) const {
    return Folded<SumFold>(n, term);
  }
  __device__ bool IsFirst() const { return threadIdx.x == 0; }
};

// Launches that of two kernels, on WarpRow or on BlockRow, which rows of this length are for.
template <typename... Parameters, typename... Arguments>
absl::Status LaunchRows(const KernelContext& context, int64_t rows, int64_t length,
                        void (*of_warp)(Parameters...), void (*of_block)(Parameters...),
                        Arguments... arguments) {
  if (rows == 0) return absl::OkStatus();
  return length <= kLongestOfWarp ? Launch(context, of_warp, WarpRow::GridOf(rows), arguments...)
                                  : Launch(context, of_block, BlockRow::GridOf(rows), arguments...);
}

}  // namespace sluice::cuda

#endif  // SLUICE_FRAMEWORK_KERNELS_CUDA_BLOCK_H_
