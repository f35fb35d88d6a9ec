// Sixteen bytes of elements, which a thread loads or stores at once: 4 f32, 8 bf16. A kernel that
// memory bounds needs a quarter or an eighth of the instructions then, and has as much more under
// way with as many threads. Only where every pack of every operand begins at a multiple of 16
// bytes, which is looked at where a kernel is launched; elsewhere elements go one by one. For the
// files of this package only.
#ifndef SLUICE_FRAMEWORK_KERNELS_CUDA_PACK_H_
#define SLUICE_FRAMEWORK_KERNELS_CUDA_PACK_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "framework/kernels/cuda/scalar_lanes.h"

namespace sluice::cuda {

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

// How many elements a loop's body is for: a pack, or one.
template <int n>
struct Count {
  static constexpr int value = n;
};

}  // namespace sluice::cuda

#endif  // SLUICE_FRAMEWORK_KERNELS_CUDA_PACK_H_
