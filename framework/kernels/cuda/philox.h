// The random numbers of tensor/random.h on a GPU. For the files of this package only.
#ifndef SLUICE_FRAMEWORK_KERNELS_CUDA_PHILOX_H_
#define SLUICE_FRAMEWORK_KERNELS_CUDA_PHILOX_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "framework/kernels/cuda/launch.h"
#include "framework/kernels/cuda/scalar_lanes.h"
#include "framework/tensor/random.h"

namespace sluice::cuda {

// What the draw of a random op is keyed and counted by. Kernels alone may read the step.
struct Draw {
  uint32_t key0, key1;
  const int64_t* step;
};
inline Draw DrawOf(const KernelContext& context, int64_t key) {
  const std::array<uint32_t, 2> words = PhiloxKey(context.seed, key);
  return {words[0], words[1], StreamOf(context).step()};
}

// Of a block of four logical indices.
SLUICE_INLINE uint4 PhiloxWords(const Draw& draw, int64_t block) {
  uint32_t k0 = draw.key0, k1 = draw.key1;
  uint32_t c0 = static_cast<uint32_t>(block), c1 = static_cast<uint32_t>(block >> 32);
  const int64_t step = *draw.step;
  uint32_t c2 = static_cast<uint32_t>(step), c3 = static_cast<uint32_t>(step >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * c0, p1 = uint64_t{0xCD9E8D57} * c2;
    c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<uint32_t>(p1);
    c3 = static_cast<uint32_t>(p0);
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return make_uint4(c0, c1, c2, c3);
}

// The word of one logical index, as RandomWord gives it.
SLUICE_INLINE uint32_t PhiloxWord(const Draw& draw, int64_t index) {
  const uint4 words = PhiloxWords(draw, index / 4);
  const uint32_t low = index % 2 == 0 ? words.x : words.y;
  const uint32_t high = index % 2 == 0 ? words.z : words.w;
  return index % 4 < 2 ? low : high;
}

// What dropout makes of an element, by its word.
struct DropoutRule {
  Draw draw;
  uint32_t threshold;
  float scale;
};
SLUICE_INLINE F DropoutOf(const DropoutRule& rule, uint32_t word, F x) {
  return word >= rule.threshold ? x * rule.scale : 0;
}
// Of elements whose logical indices are consecutive: one, or whole blocks of Philox.
template <int count>
SLUICE_INLINE void DropElements(const DropoutRule& rule, int64_t index, F (&x)[count]) {
  if constexpr (count == 1) {
    x[0] = DropoutOf(rule, PhiloxWord(rule.draw, index), x[0]);
  } else {
    for (int e = 0; e < count; e += 4) {
      const uint4 words = PhiloxWords(rule.draw, (index + e) / 4);
      x[e] = DropoutOf(rule, words.x, x[e]);
      x[e + 1] = DropoutOf(rule, words.y, x[e + 1]);
      x[e + 2] = DropoutOf(rule, words.z, x[e + 2]);
      x[e + 3] = DropoutOf(rule, words.w, x[e + 3]);
    }
  }
}

}  // namespace sluice::cuda

#endif  // SLUICE_FRAMEWORK_KERNELS_CUDA_PHILOX_H_
