// Loops over the elements of arrays that lie alike: 16 bytes of each at a time where their starts
// allow it, single elements at the end, and the one rule for how many threads there are. No result
// depends on that number. For the files of this package only.
#ifndef SLUICE_FRAMEWORK_KERNELS_CUDA_ELEMENTWISE_H_
#define SLUICE_FRAMEWORK_KERNELS_CUDA_ELEMENTWISE_H_

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "framework/kernels/cuda/launch.h"
#include "framework/kernels/cuda/scalar_lanes.h"

namespace sluice::cuda {

// Of a block. Eight blocks fill a processor of those that there are since 2020, and as many for
// each processor of the largest of them are one wave; what is more is walked with a stride.
constexpr int kElementwiseThreads = 256;
constexpr int64_t kMostBlocks = 8 * 132;

// For so many items, one a thread at a time. Threads that would find nothing are not started.
inline Grid GridOver(int64_t items, int64_t most_threads = kElementwiseThreads) {
  const int64_t threads = std::clamp<int64_t>((items + 31) / 32 * 32, 32, most_threads);
  const int64_t blocks = std::min(kMostBlocks, (items + threads - 1) / threads);
  return {dim3(static_cast<unsigned>(blocks)), dim3(static_cast<unsigned>(threads))};
}

// The place of the calling thread among all threads, which is its first item, and their number.
SLUICE_INLINE int64_t ThreadIndex() { return int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
SLUICE_INLINE int64_t NumThreads() { return int64_t{gridDim.x} * blockDim.x; }

constexpr int64_t kPackBytes = 16;
// Elements of a pack.
template <typename T>
constexpr int kPack = static_cast<int>(kPackBytes / sizeof(T));

template <typename... P>
bool PackAligned(const P*... pointers) {
  return ((reinterpret_cast<uintptr_t>(pointers) % kPackBytes == 0) && ...);
}

// What a thread computes in: elements of a float type are floats, others themselves.
template <typename T>
struct ComputesIn {
  using type = T;
};
template <>
struct ComputesIn<uint16_t> {
  using type = float;
};
template <typename T>
using ComputeType = typename ComputesIn<T>::type;

template <typename T>
SLUICE_INLINE T Widen(T x) {
  return x;
}
template <typename T>
SLUICE_INLINE void Narrow(T x, T* y) {
  *y = x;
}

// The elements of the 16 bytes at p.
template <typename T>
SLUICE_INLINE void LoadPack(const T* p, ComputeType<T>* x) {
  const uint4 words = *reinterpret_cast<const uint4*>(p);
  if constexpr (sizeof(T) == 2) {
    x[0] = FromBits(words.x << 16), x[1] = FromBits(words.x & 0xffff0000);
    x[2] = FromBits(words.y << 16), x[3] = FromBits(words.y & 0xffff0000);
    x[4] = FromBits(words.z << 16), x[5] = FromBits(words.z & 0xffff0000);
    x[6] = FromBits(words.w << 16), x[7] = FromBits(words.w & 0xffff0000);
  } else if constexpr (sizeof(T) == 4) {
    x[0] = BitCast<T>(words.x), x[1] = BitCast<T>(words.y);
    x[2] = BitCast<T>(words.z), x[3] = BitCast<T>(words.w);
  } else {
    static_assert(sizeof(T) == 8);
    x[0] = BitCast<T>(uint64_t{words.y} << 32 | words.x);
    x[1] = BitCast<T>(uint64_t{words.w} << 32 | words.z);
  }
}
// Bytes are numbers, too.
SLUICE_INLINE void LoadPack(const uint8_t* p, float* x) {
  const uint4 words = *reinterpret_cast<const uint4*>(p);
  for (int i = 0; i < 4; ++i) {
    x[i] = static_cast<float>(words.x >> 8 * i & 0xff);
    x[4 + i] = static_cast<float>(words.y >> 8 * i & 0xff);
    x[8 + i] = static_cast<float>(words.z >> 8 * i & 0xff);
    x[12 + i] = static_cast<float>(words.w >> 8 * i & 0xff);
  }
}
SLUICE_INLINE F Widen(uint8_t x) { return static_cast<float>(x); }

// Two bf16 of a word.
SLUICE_INLINE uint32_t TwoHalves(F low, F high) {
  uint16_t bits[2];
  Narrow(low, &bits[0]);
  Narrow(high, &bits[1]);
  return static_cast<uint32_t>(bits[1]) << 16 | bits[0];
}

template <typename T>
SLUICE_INLINE void StorePack(const ComputeType<T>* x, T* p) {
  uint4 words;
  if constexpr (sizeof(T) == 2) {
    words = make_uint4(TwoHalves(x[0], x[1]), TwoHalves(x[2], x[3]), TwoHalves(x[4], x[5]),
                       TwoHalves(x[6], x[7]));
  } else if constexpr (sizeof(T) == 4) {
    words = make_uint4(BitCast<uint32_t>(x[0]), BitCast<uint32_t>(x[1]), BitCast<uint32_t>(x[2]),
                       BitCast<uint32_t>(x[3]));
  } else {
    static_assert(sizeof(T) == 8);
    const uint64_t low = BitCast<uint64_t>(x[0]);
    const uint64_t high = BitCast<uint64_t>(x[1]);
    words = make_uint4(static_cast<uint32_t>(low), static_cast<uint32_t>(low >> 32),
                       static_cast<uint32_t>(high), static_cast<uint32_t>(high >> 32));
  }
  *reinterpret_cast<uint4*>(p) = words;
}

// One element, or as many as whole packs hold.
template <typename T, typename V, int count>
SLUICE_INLINE void Load(const T* p, V (&x)[count]) {
  if constexpr (count == 1) {
    x[0] = Widen(*p);
  } else {
    static_assert(count % kPack<T> == 0);
    for (int i = 0; i < count; i += kPack<T>) LoadPack(p + i, x + i);
  }
}
template <typename T, typename V, int count>
SLUICE_INLINE void Store(const V (&x)[count], T* p) {
  if constexpr (count == 1) {
    Narrow(x[0], p);
  } else {
    static_assert(count % kPack<T> == 0);
    for (int i = 0; i < count; i += kPack<T>) StorePack(x + i, p + i);
  }
}

// The elements of a loop: so many times `width` at once, then the others.
struct Elements {
  int64_t n, width, wide;
  Grid grid() const { return GridOver(std::max(wide, n - wide * width)); }
};
// Of n elements of arrays that begin at `pointers`; `width` as in ForElements.
template <typename... P>
Elements ElementsOf(int64_t n, int64_t width, const P*... pointers) {
  return {n, width, PackAligned(pointers...) ? n / width : 0};
}

template <int n>
struct Count {
  static constexpr int value = n;
};

// body(i, Count<width>()) or body(i, Count<1>()): for so many elements from i on. A width is that
// of packs of the smallest type that is loaded or stored.
template <int width, typename Body>
SLUICE_INLINE void ForElements(const Elements& elements, Body&& body) {
  const int64_t first = ThreadIndex(), threads = NumThreads();
  for (int64_t i = first; i < elements.wide; i += threads) body(i * width, Count<width>());
  for (int64_t i = elements.wide * width + first; i < elements.n; i += threads) body(i, Count<1>());
}

// kernel(pointers.., elements), which walks its elements by packs of T.
template <typename T, typename... P, typename... A>
absl::Status LaunchOver(const KernelContext& context, int64_t n, void (*kernel)(P...),
                        A*... pointers) {
  if (n == 0) return absl::OkStatus();
  const Elements elements = ElementsOf(n, kPack<T>, pointers...);
  return Launch(context, kernel, elements.grid(), pointers..., elements);
}

}  // namespace sluice::cuda

#endif  // SLUICE_FRAMEWORK_KERNELS_CUDA_ELEMENTWISE_H_
