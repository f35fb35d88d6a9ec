// Small dense products in registers, for *_vector.cc files: c (+)= a b, where b and c have rows of
// consecutive elements and a is read by any strides, so that nothing need be copied first. Each
// element of c is one chain of fused multiply-adds in the order of the depth: its bits depend
// neither on the level nor on how rows and columns are cut.
#ifndef SLUICE_FRAMEWORK_KERNELS_CPU_TILES_H_
#define SLUICE_FRAMEWORK_KERNELS_CPU_TILES_H_

#include "framework/kernels/cpu/lanes.h"

namespace sluice::cpu::SLUICE_ISA {

#ifdef __AVX512F__
constexpr int kTileRows = 8, kTileGroups = 2;
#else
constexpr int kTileRows = 4, kTileGroups = 1;
#endif

// Element (r, k) of a at a[r * row + k * depth].
struct TileStrides {
  int64_t row, depth;
};

// `by_depth`: strides.depth is 1; else strides.row is.
template <int rows, int groups, bool accumulate, bool by_depth, typename Lanes>
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
      for (int g = 0; g < groups; ++g) sum[r][g] = Fma(x, row[g], sum[r][g]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 4
    for (int g = 0; g < groups; ++g) lanes(c + r * c_row + g * kLanes, sum[r][g]);
  }
}

template <int groups, bool accumulate, bool by_depth, typename Lanes>
SLUICE_INLINE void TileColumn(int64_t rows, int64_t depth, const float* a, TileStrides strides,
                              const float* b, int64_t b_row, float* c, int64_t c_row, Lanes lanes) {
  int64_t r = 0;
  for (; r + kTileRows <= rows; r += kTileRows) {
    Tile<kTileRows, groups, accumulate, by_depth>(a + r * strides.row, strides, b, b_row, depth,
                                                  c + r * c_row, c_row, lanes);
  }
  for (; r < rows; ++r) {
    Tile<1, groups, accumulate, by_depth>(a + r * strides.row, strides, b, b_row, depth,
                                          c + r * c_row, c_row, lanes);
  }
}

template <bool accumulate, bool by_depth>
void MultiplyTiles(int64_t rows, int64_t columns, int64_t depth, const float* a,
                   TileStrides strides, const float* b, int64_t b_row, float* c, int64_t c_row) {
  int64_t col = 0;
  for (; col + kTileGroups * kLanes <= columns; col += kTileGroups * kLanes) {
    TileColumn<kTileGroups, accumulate, by_depth>(rows, depth, a, strides, b + col, b_row, c + col,
                                                  c_row, Whole());
  }
  for (; col + kLanes <= columns; col += kLanes) {
    TileColumn<1, accumulate, by_depth>(rows, depth, a, strides, b + col, b_row, c + col, c_row,
                                        Whole());
  }
  if (col < columns) {
    TileColumn<1, accumulate, by_depth>(rows, depth, a, strides, b + col, b_row, c + col, c_row,
                                        Masked{First(columns - col)});
  }
}

SLUICE_INLINE void Transpose8x8(const float* from, int64_t from_row, float* to, int64_t to_row) {
  __m256 x[8], y[8];
  for (int i = 0; i < 8; ++i) x[i] = _mm256_loadu_ps(from + i * from_row);
  for (int i = 0; i < 4; ++i) {
    y[2 * i] = _mm256_unpacklo_ps(x[2 * i], x[2 * i + 1]);
    y[2 * i + 1] = _mm256_unpackhi_ps(x[2 * i], x[2 * i + 1]);
  }
  for (int half = 0; half < 2; ++half) {
    const __m256* in = y + 4 * half;
    x[4 * half] = _mm256_shuffle_ps(in[0], in[2], 0x44);
    x[4 * half + 1] = _mm256_shuffle_ps(in[0], in[2], 0xee);
    x[4 * half + 2] = _mm256_shuffle_ps(in[1], in[3], 0x44);
    x[4 * half + 3] = _mm256_shuffle_ps(in[1], in[3], 0xee);
  }
  for (int i = 0; i < 4; ++i) {
    _mm256_storeu_ps(to + i * to_row, _mm256_permute2f128_ps(x[i], x[4 + i], 0x20));
    _mm256_storeu_ps(to + (4 + i) * to_row, _mm256_permute2f128_ps(x[i], x[4 + i], 0x31));
  }
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
