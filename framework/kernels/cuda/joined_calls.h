// Launches that are many calls at once: which of them a block works for. For the files of this
// package only.
#ifndef SLUICE_FRAMEWORK_KERNELS_CUDA_JOINED_CALLS_H_
#define SLUICE_FRAMEWORK_KERNELS_CUDA_JOINED_CALLS_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "framework/kernels/cuda/scalar_lanes.h"

namespace sluice::cuda {

// What the arguments of a kernel may take, in bytes, for tables of calls that stand beside others.
constexpr int64_t kTableBytes = 32000;
// A table for a few calls, and one of as many as an argument holds: of a small one less is copied.
constexpr int kFewCalls = 16;

// The blocks of each call, one behind the other.
template <int capacity>
struct BlocksOfCalls {
  int32_t first[capacity + 1];  // of each call, and the number of all
  int32_t count;                // of calls

  void Clear() { count = 0, first[0] = 0; }
  void Add(int64_t blocks) {
    ++count;
    first[count] = static_cast<int32_t>(first[count - 1] + blocks);
  }
  int64_t all() const { return first[count]; }
  bool Holds(int64_t more_blocks) const {
    return count < capacity && all() + more_blocks < int64_t{1} << 30;
  }

  // The last call whose blocks begin no later than this one.
  SLUICE_INLINE int CallOf(int64_t block) const {
    int low = 0, high = count;
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      const bool before = first[middle] <= block;
      low = before ? middle : low;
      high = before ? high : middle;
    }
    return low;
  }
};

}  // namespace sluice::cuda

#endif  // SLUICE_FRAMEWORK_KERNELS_CUDA_JOINED_CALLS_H_
