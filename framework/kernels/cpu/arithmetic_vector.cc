#include "framework/kernels/cpu/lanes.h"
#include "framework/kernels/cpu/tiles.h"
#include "framework/kernels/cpu/vector.h"

namespace sluice::cpu::SLUICE_ISA {
namespace {

template <F (*formula)(F, F), typename T>
void Both(const T* a, const T* b, T* y, int64_t n) {
  ForLanesTo(y, n, a != y && b != y && Streams(n),
             [&](int64_t i, auto lanes) { lanes(y + i, formula(lanes(a + i), lanes(b + i))); });
}
template <F (*formula)(F, F), typename T>
void ScalarA(const T* a, const T* b, T* y, int64_t n) {
  const F scalar = Splat(Widen(*a));
  ForLanes(n, [&](int64_t i, auto lanes) { lanes(y + i, formula(scalar, lanes(b + i))); });
}
template <F (*formula)(F, F), typename T>
void ScalarB(const T* a, const T* b, T* y, int64_t n) {
  const F scalar = Splat(Widen(*b));
  ForLanes(n, [&](int64_t i, auto lanes) { lanes(y + i, formula(lanes(a + i), scalar)); });
}
template <F (*formula)(F, F), typename T>
constexpr typename ElementwiseVector<T>::Binary BinaryOf() {
  return {Both<formula, T>, ScalarA<formula, T>, ScalarB<formula, T>};
}

// Eight rows of eight, by three rounds of interleaving: pairs of rows, of pairs, of fours.
SLUICE_INLINE void TransposeHalves8x8(const uint16_t* from, int64_t from_row, uint16_t* to,
                                      int64_t to_row) {
  __m128i x[8], y[8];
  for (int i = 0; i < 8; ++i) {
    x[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i * from_row));
  }
  for (int i = 0; i < 4; ++i) {
    y[2 * i] = _mm_unpacklo_epi16(x[2 * i], x[2 * i + 1]);
    y[2 * i + 1] = _mm_unpackhi_epi16(x[2 * i], x[2 * i + 1]);
  }
  for (int half = 0; half < 2; ++half) {
    const __m128i* in = y + 4 * half;
    x[4 * half] = _mm_unpacklo_epi32(in[0], in[2]);
    x[4 * half + 1] = _mm_unpackhi_epi32(in[0], in[2]);
    x[4 * half + 2] = _mm_unpacklo_epi32(in[1], in[3]);
    x[4 * half + 3] = _mm_unpackhi_epi32(in[1], in[3]);
  }
  for (int i = 0; i < 4; ++i) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 2 * i * to_row),
                     _mm_unpacklo_epi64(x[i], x[4 + i]));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + (2 * i + 1) * to_row),
                     _mm_unpackhi_epi64(x[i], x[4 + i]));
  }
}

// Columns in strips whose source rows and target rows stay in the first cache.
void TransposeHalves(const uint16_t* from, int64_t from_row, int64_t rows, int64_t columns,
                     uint16_t* to, int64_t to_row) {
  constexpr int64_t kStrip = 32;
  for (int64_t strip = 0; strip < columns; strip += kStrip) {
    const int64_t end = strip + kStrip < columns ? strip + kStrip : columns;
    int64_t r = 0;
    for (; r + 8 <= rows; r += 8) {
      int64_t c = strip;
      for (; c + 8 <= end; c += 8) {
        TransposeHalves8x8(from + r * from_row + c, from_row, to + c * to_row + r, to_row);
      }
      for (; c < end; ++c) {
        for (int i = 0; i < 8; ++i) to[c * to_row + r + i] = from[(r + i) * from_row + c];
      }
    }
    for (; r < rows; ++r) {
      for (int64_t c = strip; c < end; ++c) to[c * to_row + r] = from[r * from_row + c];
    }
  }
}

void PairUp(const BFloat16* a, const BFloat16* b, BFloat16* y, int64_t n) {
  PairRows(a, b, reinterpret_cast<float*>(y), n);
}

template <typename T>
void AddToF32(const T* x, float* sum, int64_t n) {
  ForLanes(n, [&](int64_t i, auto lanes) { lanes(sum + i, lanes(sum + i) + lanes(x + i)); });
}

template <typename T>
void Scale(const T* x, float factor, T* y, int64_t n) {
  const F scalar = Splat(factor);
  ForLanesTo(y, n, x != y && Streams(n),
             [&](int64_t i, auto lanes) { lanes(y + i, lanes(x + i) * scalar); });
}

void AddStreaming(const float* a, const float* b, float* y, int64_t n) {
  StreamLanes(y, n, [&](int64_t i, auto lanes) { lanes(y + i, lanes(a + i) + lanes(b + i)); });
}

void CopyStreaming(const float* x, float* y, int64_t n) {
  StreamLanes(y, n, [&](int64_t i, auto lanes) { lanes(y + i, lanes(x + i)); });
}

void Copy(const float* x, float* y, int64_t n) {
  ForLanesTo(y, n, Streams(n), [&](int64_t i, auto lanes) { lanes(y + i, lanes(x + i)); });
}

void Fill(float value, float* y, int64_t n) {
  const F scalar = Splat(value);
  ForLanesTo(y, n, Streams(n), [&](int64_t i, auto lanes) { lanes(y + i, scalar); });
}

void SquareRoot(const float* x, float* y, int64_t n) {
  ForLanes(n, [&](int64_t i, auto lanes) { lanes(y + i, Sqrt(lanes(x + i))); });
}

void ToBFloat16(const float* x, BFloat16* y, int64_t n) {
  ForLanes(n, [&](int64_t i, auto lanes) { lanes(y + i, lanes(x + i)); });
}

void FromBFloat16(const BFloat16* x, float* y, int64_t n) {
  ForLanesTo(y, n, Streams(n), [&](int64_t i, auto lanes) { lanes(y + i, lanes(x + i)); });
}

template <typename T>
constexpr ElementwiseVector<T> LoopsOf() {
  return {BinaryOf<AddOf, T>(),
          BinaryOf<SubtractOf, T>(),
          BinaryOf<MultiplyOf, T>(),
          BinaryOf<DivideOf, T>(),
          Both<Max, T>,
          Both<Min, T>,
          Scale<T>,
          AddToF32<T>};
}

bool AllBelow(const int32_t* x, uint32_t limit, int64_t n) {
  const I bound = SplatI(static_cast<int32_t>(limit));
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    if (Any(AtLeastUnsigned(LoadI(x + i), bound))) return false;
  }
  for (; i < n; ++i) {
    if (static_cast<uint32_t>(x[i]) >= limit) return false;
  }
  return true;
}

}  // namespace

extern const ElementwiseVector<float> kElementwise = LoopsOf<float>();
extern const ElementwiseVector<BFloat16> kElementwiseBf16 = LoopsOf<BFloat16>();
extern const ArithmeticVector kArithmetic = {
    AddStreaming, CopyStreaming, Copy,       TransposeInto, TransposeHalves, PairUp,
    Fill,         SquareRoot,    ToBFloat16, FromBFloat16,  AllBelow,
};

}  // namespace sluice::cpu::SLUICE_ISA
