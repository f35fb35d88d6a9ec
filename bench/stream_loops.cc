#include "bench/stream_loops.h"

#include <immintrin.h>

namespace sluice::SLUICE_ISA {
namespace {

#ifdef __AVX512F__
using V = __m512;
constexpr int kWidth = 16;
inline __attribute__((always_inline)) V Load(const float* p) { return _mm512_load_ps(p); }
inline __attribute__((always_inline)) void Store(float* p, V x) { _mm512_store_ps(p, x); }
inline __attribute__((always_inline)) void Stream(float* p, V x) { _mm512_stream_ps(p, x); }
#else
using V = __m256;
constexpr int kWidth = 8;
inline __attribute__((always_inline)) V Load(const float* p) { return _mm256_load_ps(p); }
inline __attribute__((always_inline)) void Store(float* p, V x) { _mm256_store_ps(p, x); }
inline __attribute__((always_inline)) void Stream(float* p, V x) { _mm256_stream_ps(p, x); }
#endif

constexpr int kStep = 64;  // elements

float Read(const float* a, int64_t n) {
  V sum[4] = {};
  for (int64_t i = 0; i < n; i += kStep) {
    for (int k = 0; k < kStep / kWidth; ++k) sum[k % 4] += Load(a + i + k * kWidth);
  }
  const V all = (sum[0] + sum[1]) + (sum[2] + sum[3]);
  float total = 0;
  for (int l = 0; l < kWidth; ++l) total += all[l];
  return total;
}

template <bool streaming>
inline __attribute__((always_inline)) void Put(float* p, V x) {
  if (streaming) {
    Stream(p, x);
  } else {
    Store(p, x);
  }
}

template <bool streaming>
void Triad(const float* a, const float* b, float* c, int64_t n) {
  for (int64_t i = 0; i < n; i += kStep) {
    for (int k = 0; k < kStep; k += kWidth) {
      Put<streaming>(c + i + k, Load(a + i + k) + 3 * Load(b + i + k));
    }
  }
  if (streaming) _mm_sfence();
}

template <bool streaming>
void Copy(const float* a, float* c, int64_t n) {
  for (int64_t i = 0; i < n; i += kStep) {
    for (int k = 0; k < kStep; k += kWidth) Put<streaming>(c + i + k, Load(a + i + k));
  }
  if (streaming) _mm_sfence();
}

void Add(const float* a, float* c, int64_t n) {
  for (int64_t i = 0; i < n; i += kStep) {
    for (int k = 0; k < kStep; k += kWidth) Store(c + i + k, Load(c + i + k) + Load(a + i + k));
  }
}

}  // namespace

extern const StreamLoops kStreamLoops = {Read,        Triad<false>, Triad<true>,
                                         Copy<false>, Copy<true>,   Add};

}  // namespace sluice::SLUICE_ISA
