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
#include "framework/kernels/cuda/pack.h"

namespace sluice::cuda {

// Of loops of a constant count: an array lies in registers only where every index is a constant.
#ifdef __CUDACC__
#define SLUICE_UNROLLED _Pragma("unroll")
#else
#define SLUICE_UNROLLED
#endif

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
  __device__ void Add(int begin, int end, const Term& term) {
    const int lane = Lane();
    int i = begin;
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

  // Terms of a pack in each lane, beside each other and the first lane's first at a multiple of 64.
  // They are of several runs of 64, which the lanes of a run hold together: lanes pass each other
  // terms until each has those of two results, of all runs. Before Add, Restore is due.
  template <int count>
  __device__ void AddPacks(float (&term)[count]) {
    static_assert(count == 4 || count == 8);
    Exchange<count / 2>(term, 16);
    if constexpr (count == 8) {
      Exchange<2>(term, 8);
      Exchange<2>(term + 4, 8);
    }
    for (int run = 0; run < count / 2; ++run) {
      low_ = Fold::Of(low_, term[2 * run]);
      high_ = Fold::Of(high_, term[2 * run + 1]);
    }
  }

  // Takes the results that packs were folded into to the lanes where Add and Result have them.
  template <int count>
  __device__ void Restore() {
    const int lane = Lane(), source = lane / count + 64 / count * (lane % count / 2);
    const float low[2] = {__shfl_sync(kAllLanes, low_, source),
                          __shfl_sync(kAllLanes, high_, source)};
    const float high[2] = {__shfl_sync(kAllLanes, low_, source + 32 / count),
                           __shfl_sync(kAllLanes, high_, source + 32 / count)};
    const bool odd = lane % 2 != 0;
    low_ = odd ? low[1] : low[0];
    high_ = odd ? high[1] : high[0];
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
  // The lower of two lanes keeps the first `half` terms and gets those of the other, the higher
  // lane keeps the second and likewise. Then the lower lane's stand first in both.
  template <int half>
  static __device__ void Exchange(float* term, int distance) {
    const bool higher = (Lane() & distance) != 0;
    for (int e = 0; e < half; ++e) {
      const float kept = higher ? term[half + e] : term[e];
      const float got = __shfl_xor_sync(kAllLanes, higher ? term[e] : term[half + e], distance);
      term[e] = higher ? got : kept;
      term[half + e] = higher ? kept : got;
    }
  }

  float low_ = Fold::kIdentity, high_ = Fold::kIdentity;
};

// Rows that kernels walk: by packs if each row of each operand begins where one may.
struct Rows {
  int64_t count, length;
  bool in_packs;
};
// `pointers`: of all that is walked along the row.
template <typename T, typename... P>
Rows RowsOf(int64_t count, int64_t length, const P*... pointers) {
  return {count, length, length % kPack<T> == 0 && PackAligned(pointers...)};
}

// Of all threads of a block, a power of two of them, in every one; `sums` of dynamic shared memory
// hold one each.
__device__ inline double SumOfBlock(double sum) {
  double* const sums = SharedMemory<double>();
  sums[threadIdx.x] = sum;
  __syncthreads();
  for (unsigned width = blockDim.x / 2; width > 0; width /= 2) {
    if (threadIdx.x < width) sums[threadIdx.x] += sums[threadIdx.x + width];
    __syncthreads();
  }
  return sums[0];
}

// `total` and then, in order, the terms from `from` on to `end`, `step` apart. A thread that adds
// up alone, in an order that none may change, waits for memory once in so many terms, not for each:
// what is behind the last is read as the last, for a read behind a condition waits for the others.
template <typename T>
__device__ T PlusTerms(T total, const T* terms, int64_t from, int64_t end, int64_t step = 1) {
  constexpr int kAhead = 128 / sizeof(T);
  if (from >= end) return total;
  const int64_t last = from + (end - 1 - from) / step * step;
  for (; from <= last; from += kAhead * step) {
    T held[kAhead];
    SLUICE_UNROLLED
    for (int a = 0; a < kAhead; ++a) {
      const int64_t at = from + a * step;
      held[a] = terms[at < last ? at : last];
    }
    SLUICE_UNROLLED
    for (int a = 0; a < kAhead; ++a) {
      if (from + a * step <= last) total = total + held[a];
    }
  }
  return total;
}

// Below, a row's elements are given to functions as in ForElements: fn(i, Count<n>()) is for n
// elements from i on, and terms(i, term) sets an array of one term of each. n is `width`, that of a
// pack, or 1.

// Of a loop over packs, two have their loads under way: nvcc would take as many as there are
// registers, and a few more, and a spilled register goes through memory.
#ifdef __CUDACC__
#define SLUICE_TWO_PACKS _Pragma("unroll 2")
#else
#define SLUICE_TWO_PACKS
#endif

// By one of so many threads that take so many elements.
template <int width, typename Index, typename Fn>
SLUICE_INLINE void ForElementsOf(Index length, bool in_packs, int thread, int threads,
                                 const Fn& fn) {
  if (in_packs) {
    SLUICE_TWO_PACKS
    for (Index i = thread * width; i < length; i += threads * width) fn(i, Count<width>());
  } else {
    for (Index i = thread; i < length; i += threads) fn(i, Count<1>());
  }
}

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
  // Every element by one thread.
  template <int width, typename Fn>
  SLUICE_INLINE void ForEach(const Rows& rows, const Fn& fn) const {
    ForElementsOf<width>(static_cast<int>(rows.length), rows.in_packs, Lane(), kWarp, fn);
  }
  // The fold of the terms of all elements, in every thread. All threads of the row call it.
  template <typename Fold, int width, typename Terms>
  SLUICE_INLINE float Folded(const Rows& rows, const Terms& terms) const {
    constexpr int kTerms = kWarp * width;
    const int length = static_cast<int>(rows.length);
    LaneFold<Fold> fold;
    int begin = 0;
    if (rows.in_packs && length >= kTerms) {
      SLUICE_TWO_PACKS
      for (; begin + kTerms <= length; begin += kTerms) {
        float term[width];
        terms(begin + Lane() * width, term);
        fold.AddPacks(term);
      }
      fold.template Restore<width>();
    }
    fold.Add(begin, length, [&](int i) {
      float term[1];
      terms(i, term);
      return term[0];
    });
    return fold.Result();
  }
  template <int width, typename Terms>
  SLUICE_INLINE float Sum(const Rows& rows, const Terms& terms) const {
    return Folded<SumFold, width>(rows, terms);
  }
  // One thread of the row.
  __device__ bool IsFirst() const { return Lane() == 0; }
};

// A row that a block takes. All threads compute terms, of which one warp then makes the sum: each
// of its additions waits for the one before, but reads from shared memory. So which thread loads an
// element has nothing to do with the order of the sum.
class BlockRow {
  static constexpr int kTerms = 4096;  // a multiple of 64

 public:
  // Of shared memory, from its start.
  static constexpr int kSharedFloats = kTerms + 1;

  static Grid GridOf(int64_t rows) {
    return {dim3(static_cast<unsigned>(rows)), dim3(kRowThreads), kSharedFloats * sizeof(float)};
  }

  __device__ int64_t index() const { return blockIdx.x; }
  template <int width, typename Fn>
  SLUICE_INLINE void ForEach(const Rows& rows, const Fn& fn) const {
    ForElementsOf<width>(rows.length, rows.in_packs, static_cast<int>(threadIdx.x), kRowThreads,
                         fn);
  }
  template <typename Fold, int width, typename Terms>
  SLUICE_INLINE float Folded(const Rows& rows, const Terms& terms) const {
    float* const shared = SharedMemory<float>();
    float* const result = shared + kTerms;
    LaneFold<Fold> fold;
    for (int64_t begin = 0; begin < rows.length; begin += kTerms) {
      const int64_t left = rows.length - begin;
      const int length = left < kTerms ? static_cast<int>(left) : kTerms;
      ForElementsOf<width>(length, rows.in_packs, static_cast<int>(threadIdx.x), kRowThreads,
                           [&]<int count>(int i, Count<count>) {
                             float term[count];
                             terms(begin + i, term);
                             Store(term, shared + i);
                           });
      __syncthreads();
      if (WarpOfBlock() == 0) fold.Add(0, length, [&](int i) { return shared[i]; });
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
  template <int width, typename Terms>
  SLUICE_INLINE float Sum(const Rows& rows, const Terms& terms) const {
    return Folded<SumFold, width>(rows, terms);
  }
  __device__ bool IsFirst() const { return threadIdx.x == 0; }
};

// Launches kernel(rows, arguments..), that of two on WarpRow or on BlockRow which rows of this
// length are for.
template <typename... Parameters, typename... Arguments>
absl::Status LaunchRows(const KernelContext& context, const Rows& rows,
                        void (*of_warp)(Parameters...), void (*of_block)(Parameters...),
                        Arguments... arguments) {
  if (rows.count == 0) return absl::OkStatus();
  return rows.length <= kLongestOfWarp
             ? Launch(context, of_warp, WarpRow::GridOf(rows.count), rows, arguments...)
             : Launch(context, of_block, BlockRow::GridOf(rows.count), rows, arguments...);
}

}  // namespace sluice::cuda

#endif  // SLUICE_FRAMEWORK_KERNELS_CUDA_BLOCK_H_
