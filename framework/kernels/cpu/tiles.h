// Small dense products in registers, for *_vector.cc files: c (+)= a b, where b and c have rows of
// consecutive elements and a is read by any strides, so that nothing need be copied first. Each
// element of c is one chain of fused multiply-adds in the order of the depth: its bits depend
// neither on the level nor on how rows and columns are cut. What stands in a float of a and b is
// said by the Term: an f32, or two bf16 that follow each other in the depth.
#ifndef SLUICE_FRAMEWORK_KERNELS_CPU_TILES_H_
#define SLUICE_FRAMEWORK_KERNELS_CPU_TILES_H_

#include "framework/kernels/cpu/lanes.h"

namespace sluice::cpu::SLUICE_ISA {

#ifdef __AVX512F__
constexpr int kTileRows = 8, kTileGroups = 2;
#else
constexpr int kTileRows = 4, kTileGroups = 1;
#endif

// sum + a b, of f32.
struct FloatTerm {
  SLUICE_INLINE F operator()(F a, F b, F sum) const { return Fma(a, b, sum); }
};
// The same of two bf16 in each lane: the second ones' product is added first, as the instruction
// does, and where there is none the same bits come of f32. (It takes denormal numbers as zero.)
struct PairTerm {
  SLUICE_INLINE F operator()(F a, F b, F sum) const {
#ifdef __AVX512BF16__
    return {
        _mm512_dpbf16_ps(sum.v, reinterpret_cast<__m512bh>(a.v), reinterpret_cast<__m512bh>(b.v))};
#else
    const I second = SplatI(static_cast<int32_t>(0xffff0000));
    sum = Fma(FromBits(Bits(a) & second), FromBits(Bits(b) & second), sum);
    return Fma(FromBits(ShiftLeft<16>(Bits(a))), FromBits(ShiftLeft<16>(Bits(b))), sum);
#endif
  }
};
// As two bf16 to a lane, and as bf16 one behind the other: numbers for a PairTerm, which makes zero
// of denormal ones anyway.
SLUICE_INLINE F PairOf(F first, F second) {
#ifdef __AVX512BF16__
  const I low = {_mm512_cvtepu16_epi32(reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(first.v)))};
  const I high = {_mm512_cvtepu16_epi32(reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(second.v)))};
#else
  const I low = RoundToHalves(first), high = RoundToHalves(second);
#endif
  return FromBits(low | ShiftLeft<16>(high));
}
SLUICE_INLINE void StoreForPairs(uint16_t* p, F a) {
#ifdef __AVX512BF16__
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(a.v)));
#else
  Store(p, a);
#endif
}
// y[2i], y[2i + 1] = a[i], b[i]; zero for b where there is none (null).
SLUICE_INLINE void PairRows(const uint16_t* a, const uint16_t* b, float* y, int64_t n) {
  ForLanes(n, [&](int64_t i, auto lanes) {
    const I low = ShiftRight<16>(Bits(lanes(a + i)));  // as f32 a bf16 is in the high half
    lanes(y + i, FromBits(b == nullptr ? low : low | Bits(lanes(b + i))));
  });
}

// Element (r, k) of a at a[r * row + k * depth].
struct TileStrides {
  int64_t row, depth;
};

// `by_depth`: strides.depth is 1; else strides.row is.
template <typename Term, int rows, int groups, bool accumulate, bool by_depth, typename Lanes>
SLUICE_INLINE void Tile(const float* a, TileStrides strides, const float* b, int64_t b_row,
                        int64_t depth, float* c, int64_t c_row, Lanes lanes) {
  F sum[rows][groups];
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 4
    for (int g = 0; g < groups; ++g) {
      sum[r][g] = accumulate ? lanes(c + r * c_row + g * kLanes) : Splat(0);
    }
  }
  for (int64_t k = 0; k < depth; ++k) {
    F row[groups];
#pragma GCC unroll 4
    for (int g = 0; g < groups; ++g) row[g] = lanes(b + k * b_row + g * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
      const F x = Splat(by_depth ? a[r * strides.row + k] : a[r + k * strides.depth]);
#pragma GCC unroll 4
      for (int g = 0; g < groups; ++g) sum[r][g] = Term()(x, row[g], sum[r][g]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 4
    for (int g = 0; g < groups; ++g) lanes(c + r * c_row + g * kLanes, sum[r][g]);
  }
}

template <typename Term, int groups, bool accumulate, bool by_depth, typename Lanes>
SLUICE_INLINE void TileColumn(int64_t rows, int64_t depth, const float* a, TileStrides strides,
                              const float* b, int64_t b_row, float* c, int64_t c_row, Lanes lanes) {
  int64_t r = 0;
  for (; r + kTileRows <= rows; r += kTileRows) {
    Tile<Term, kTileRows, groups, accumulate, by_depth>(a + r * strides.row, strides, b, b_row,
                                                        depth, c + r * c_row, c_row, lanes);
  }
  for (; r < rows; ++r) {
    Tile<Term, 1, groups, accumulate, by_depth>(a + r * strides.row, strides, b, b_row, depth,
                                                c + r * c_row, c_row, lanes);
  }
}

template <bool accumulate, bool by_depth, typename Term = FloatTerm>
void MultiplyTiles(int64_t rows, int64_t columns, int64_t depth, const float* a,
                   TileStrides strides, const float* b, int64_t b_row, float* c, int64_t c_row) {
  int64_t col = 0;
  for (; col + kTileGroups * kLanes <= columns; col += kTileGroups * kLanes) {
    TileColumn<Term, kTileGroups, accumulate, by_depth>(rows, depth, a, strides, b + col, b_row,
                                                        c + col, c_row, Whole());
  }
  for (; col + kLanes <= columns; col += kLanes) {
    TileColumn<Term, 1, accumulate, by_depth>(rows, depth, a, strides, b + col, b_row, c + col,
                                              c_row, Whole());
  }
  if (col < columns) {
    TileColumn<Term, 1, accumulate, by_depth>(rows, depth, a, strides, b + col, b_row, c + col,
                                              c_row, Masked{First(columns - col)});
  }
}

// Eight rows of a square of eight to its columns.
SLUICE_INLINE void TransposeEight(__m256* x) {
  __m256 y[8];
  for (int i = 0; i < 4; ++i) {
    y[2 * i] = _mm256_unpacklo_ps(x[2 * i], x[2 * i + 1]);
    y[2 * i + 1] = _mm256_unpackhi_ps(x[2 * i], x[2 * i + 1]);
  }
  __m256 z[8];
  for (int half = 0; half < 2; ++half) {
    const __m256* in = y + 4 * half;
    z[4 * half] = _mm256_shuffle_ps(in[0], in[2], 0x44);
    z[4 * half + 1] = _mm256_shuffle_ps(in[0], in[2], 0xee);
    z[4 * half + 2] = _mm256_shuffle_ps(in[1], in[3], 0x44);
    z[4 * half + 3] = _mm256_shuffle_ps(in[1], in[3], 0xee);
  }
  for (int i = 0; i < 4; ++i) {
    x[i] = _mm256_permute2f128_ps(z[i], z[4 + i], 0x20);
    x[4 + i] = _mm256_permute2f128_ps(z[i], z[4 + i], 0x31);
  }
}

SLUICE_INLINE void Transpose8x8(const float* from, int64_t from_row, float* to, int64_t to_row) {
  __m256 x[8];
  for (int i = 0; i < 8; ++i) x[i] = _mm256_loadu_ps(from + i * from_row);
  TransposeEight(x);
  for (int i = 0; i < 8; ++i) _mm256_storeu_ps(to + i * to_row, x[i]);
}

// to[c * to_row + r] = from[r * from_row + c].
inline void TransposeInto(const float* from, int64_t from_row, int64_t rows, int64_t columns,
                          float* to, int64_t to_row) {
  int64_t r = 0;
  for (; r + 8 <= rows; r += 8) {
    int64_t c = 0;
    for (; c + 8 <= columns; c += 8) {
      Transpose8x8(from + r * from_row + c, from_row, to + c * to_row + r, to_row);
    }
    for (; c < columns; ++c) {
      for (int i = 0; i < 8; ++i) to[c * to_row + r + i] = from[(r + i) * from_row + c];
    }
  }
  for (; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) to[c * to_row + r] = from[r * from_row + c];
  }
}

}  // namespace sluice::cpu::SLUICE_ISA

#endif  // SLUICE_FRAMEWORK_KERNELS_CPU_TILES_H_
