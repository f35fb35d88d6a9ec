// Draws of random ops by lanes, and dropout by them, for *_vector.cc.
#ifndef SLUICE_FRAMEWORK_KERNELS_CPU_DROPOUT_LANES_H_
#define SLUICE_FRAMEWORK_KERNELS_CPU_DROPOUT_LANES_H_

#include "framework/kernels/cpu/lanes.h"
#include "framework/kernels/cpu/vector.h"

namespace sluice::cpu::SLUICE_ISA {

// The words of blocks [block, block + 16), in order, as tensor/random.h makes them; block is a
// multiple of 16. Lanes take the blocks in an order that four interleavings undo.
SLUICE_INLINE void PhiloxWords(const Draw& draw, int64_t block, int32_t* words) {
  static const int32_t kOrder[kLanes] = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
  I c0 = SplatI(static_cast<int32_t>(block)) + LoadI(kOrder);
  I c1 = SplatI(static_cast<int32_t>(block >> 32));
  I c2 = SplatI(static_cast<int32_t>(draw.step));
  I c3 = SplatI(static_cast<int32_t>(draw.step >> 32));
  const I m0 = SplatI(static_cast<int32_t>(0xD2511F53)),
          m1 = SplatI(static_cast<int32_t>(0xCD9E8D57));
  uint32_t k0 = draw.key0, k1 = draw.key1;
  for (int round = 0; round < 10; ++round) {
    I high0, low0, high1, low1;
    MultiplyWide(m0, c0, &high0, &low0);
    MultiplyWide(m1, c2, &high1, &low1);
    c0 = high1 ^ c1 ^ SplatI(static_cast<int32_t>(k0));
    c2 = high0 ^ c3 ^ SplatI(static_cast<int32_t>(k1));
    c1 = low1;
    c3 = low0;
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  StoreTransposed(c0, c1, c2, c3, words);
}

// y[i] = word(first + i) >= threshold ? x[i] * scale : 0, as ActivationVector has it; y may be x.
template <typename T>
void Dropout(const Draw& draw, uint32_t threshold, float scale, int64_t first, const T* x, T* y,
             int64_t n) {
  constexpr int64_t kChunk = 4 * kLanes;
  int32_t words[kChunk];
  const F factor = Splat(scale), zero = Splat(0);
  const I limit = SplatI(static_cast<int32_t>(threshold));
  const int64_t end = first + n;
  for (int64_t chunk = first / kChunk * kChunk; chunk < end; chunk += kChunk) {
    PhiloxWords(draw, chunk / 4, words);
    const int64_t from = chunk < first ? first : chunk;
    const int64_t to = chunk + kChunk < end ? chunk + kChunk : end;
    const T* in = x + (from - first);
    T* out = y + (from - first);
    if (to - from == kChunk) {
      for (int i = 0; i < kChunk; i += kLanes) {
        const M keep = AtLeastUnsigned(LoadI(words + i), limit);
        Store(out + i, Select(keep, Load(in + i) * factor, zero));
      }
    } else {
      for (int64_t i = 0; i < to - from; ++i) {
        const bool keep = static_cast<uint32_t>(words[from - chunk + i]) >= threshold;
        Narrow(keep ? Widen(in[i]) * scale : 0, out + i);
      }
    }
  }
}

}  // namespace sluice::cpu::SLUICE_ISA

#endif  // SLUICE_FRAMEWORK_KERNELS_CPU_DROPOUT_LANES_H_
