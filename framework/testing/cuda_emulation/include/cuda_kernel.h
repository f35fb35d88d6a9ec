// What kernels are written with: the words of CUDA C++, the indices of a thread, barriers, shuffles
// and atomics. A closed list, as cuda_runtime_api.h; that header tells why names are the toolkit's.
#ifndef SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_INCLUDE_CUDA_KERNEL_H_
#define SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_INCLUDE_CUDA_KERNEL_H_

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "vector_types.h"

// Static, so that kernels of one name in two files do not clash and keep a name of their own in
// reports.
#define __global__ static
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(n) alignas(n)
// One block runs at a time, so one copy is enough. A section of its own would be good to know them
// by, but gcc refuses one that static and inline functions share.
#define __shared__ static __attribute__((used))

namespace sluice::cuda_emulation {

struct Indices {
  uint3 thread, block, block_dim, grid_dim;
};
// No thread sees its own change, so a compiler may keep them in registers and leaves reads of them
// unchecked, as constants. The emulation writes them between threads, by another name.
extern const Indices kernel_indices;

void BlockBarrier(int line);
void WarpBarrier(unsigned mask, int line);
// The value of a lane that arrives with the same mask; of its own if `source` is negative.
uint64_t Shuffle(unsigned mask, uint64_t value, int source, int line);
unsigned Ballot(unsigned mask, bool vote, int line);
int Lane();
void* DynamicShared();

// The lane that shuffles of `width` lanes read: its own where there is none.
inline int LaneUp(unsigned delta, int width) {
  const int lane = Lane(), source = lane - static_cast<int>(delta);
  return source < (lane & ~(width - 1)) ? -1 : source;
}
inline int LaneWithin(int source, int width) {
  return source > (Lane() | (width - 1)) ? -1 : source;
}
inline int LaneAt(int source, int width) {
  return (Lane() & ~(width - 1)) | (source & (width - 1));
}

template <typename T>
T ShuffleAs(unsigned mask, T value, int source, int line) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "hardware shuffles words of 32 and 64 bits");
  uint64_t word = 0;
  std::memcpy(&word, &value, sizeof(T));
  word = Shuffle(mask, word, source, line);
  std::memcpy(&value, &word, sizeof(T));
  return value;
}

}  // namespace sluice::cuda_emulation

#define threadIdx (::sluice::cuda_emulation::kernel_indices.thread)
#define blockIdx (::sluice::cuda_emulation::kernel_indices.block)
#define blockDim (::sluice::cuda_emulation::kernel_indices.block_dim)
#define gridDim (::sluice::cuda_emulation::kernel_indices.grid_dim)

inline void __syncthreads(int line = __builtin_LINE()) {
  ::sluice::cuda_emulation::BlockBarrier(line);
}
inline void __syncwarp(unsigned mask = 0xffffffffu, int line = __builtin_LINE()) {
  ::sluice::cuda_emulation::WarpBarrier(mask, line);
}
template <typename T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32, int line = __builtin_LINE()) {
  namespace emulation = ::sluice::cuda_emulation;
  return emulation::ShuffleAs(mask, value, emulation::LaneAt(source, width), line);
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int distance, int width = 32,
                  int line = __builtin_LINE()) {
  namespace emulation = ::sluice::cuda_emulation;
  return emulation::ShuffleAs(mask, value,
                              emulation::LaneWithin(emulation::Lane() ^ distance, width), line);
}
template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                   int line = __builtin_LINE()) {
  namespace emulation = ::sluice::cuda_emulation;
  const int source = emulation::Lane() + static_cast<int>(delta);
  return emulation::ShuffleAs(mask, value, emulation::LaneWithin(source, width), line);
}
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
                 int line = __builtin_LINE()) {
  namespace emulation = ::sluice::cuda_emulation;
  return emulation::ShuffleAs(mask, value, emulation::LaneUp(delta, width), line);
}
inline unsigned __ballot_sync(unsigned mask, int vote, int line = __builtin_LINE()) {
  return ::sluice::cuda_emulation::Ballot(mask, vote != 0, line);
}

template <typename T>
T __ldg(const T* p) {
  return *p;
}

// Of integers alone: floating-point sums would depend on the order of the threads.
int atomicAdd(int* address, int value);
unsigned int atomicAdd(unsigned int* address, unsigned int value);
unsigned long long atomicAdd(unsigned long long* address, unsigned long long value);
int atomicMax(int* address, int value);
unsigned int atomicMax(unsigned int* address, unsigned int value);
long long atomicMax(long long* address, long long value);
unsigned long long atomicMax(unsigned long long* address, unsigned long long value);
int atomicCAS(int* address, int compare, int value);
unsigned int atomicCAS(unsigned int* address, unsigned int compare, unsigned int value);
unsigned long long atomicCAS(unsigned long long* address, unsigned long long compare,
                             unsigned long long value);

inline int __float_as_int(float x) { return __builtin_bit_cast(int, x); }
inline unsigned int __float_as_uint(float x) { return __builtin_bit_cast(unsigned int, x); }
inline float __int_as_float(int x) { return __builtin_bit_cast(float, x); }
inline float __uint_as_float(unsigned int x) { return __builtin_bit_cast(float, x); }
// As the guide has it: of a divisor above 2^126, 0, and NaN of two that are infinite.
inline float __fdividef(float x, float y) {
  return std::fabs(y) > 0x1p126f && std::isfinite(y) ? 0 : x / y;
}
inline int __popc(unsigned int x) { return __builtin_popcount(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(static_cast<unsigned int>(x)); }
inline int __ffs(int x) { return __builtin_ffs(x); }

#endif  // SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_INCLUDE_CUDA_KERNEL_H_
