// The inner loops of tiled_product.cc. A tile is a strip of a times a panel of b: its twelve sums
// of eight lanes, a row of the panel and one element of the strip fill the sixteen registers of
// AVX2, and twelve chains are more than two multiply-adds a cycle of a latency of four need.
#include "framework/kernels/cpu/lanes.h"
#include "framework/kernels/cpu/tiles.h"
#include "framework/kernels/cpu/vector.h"

namespace sluice::cpu::SLUICE_ISA {
namespace {

SLUICE_INLINE __m256 Eight(const float* p) { return _mm256_loadu_ps(p); }
SLUICE_INLINE __m256 Eight(const uint16_t* p) {
  return OfHalves(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}

// The first `n` of them.
template <int64_t n>
SLUICE_INLINE void StoreFirst(float* to, __m256 x) {
  if constexpr (n >= 8) {
    _mm256_storeu_ps(to, x);
  } else {
    static_assert(n == 6);
    _mm_storeu_ps(to, _mm256_castps256_ps128(x));
    _mm_storel_pi(reinterpret_cast<__m64*>(to + 4), _mm256_extractf128_ps(x, 1));
  }
}

template <typename T, int64_t width>
void PackAlong(const T* from, int64_t step, int64_t lines, int64_t depth, float* to) {
  for (int64_t first = 0; first < lines; first += width, to += depth * width) {
    const T* const group = from + first * step;
    const int64_t n = lines - first < width ? lines - first : width;
    int64_t d = 0;
    for (; d + 8 <= depth; d += 8) {
#pragma GCC unroll 2
      for (int64_t half = 0; half < width; half += 8) {
        __m256 x[8];
#pragma GCC unroll 8
        for (int64_t i = 0; i < 8; ++i) {
          x[i] = half + i < width && half + i < n ? Eight(group + (half + i) * step + d)
                                                  : _mm256_setzero_ps();
        }
        TransposeEight(x);
#pragma GCC unroll 8
        for (int64_t i = 0; i < 8; ++i) {
          StoreFirst<width - 8 * (width > 8)>(to + (d + i) * width + half, x[i]);
        }
      }
    }
    for (; d < depth; ++d) {
      for (int64_t l = 0; l < width; ++l) {
        to[d * width + l] = l < n ? Widen(group[l * step + d]) : 0;
      }
    }
  }
}

// Some depth of all lines before the next, so that what is read lies in long runs.
template <typename T, int64_t width>
void PackAcross(const T* from, int64_t step, int64_t lines, int64_t depth, float* to) {
  constexpr int64_t kAtATime = 16, kLoaded = (width + 7) / 8 * 8;
  for (int64_t begin = 0; begin < depth; begin += kAtATime) {
    const int64_t end = begin + kAtATime < depth ? begin + kAtATime : depth;
    for (int64_t first = 0; first < lines; first += width) {
      float* const group = to + first * depth;
      for (int64_t d = begin; d < end; ++d) {
        const T* const at = from + d * step + first;
        if (first + kLoaded <= lines) {
#pragma GCC unroll 2
          for (int64_t half = 0; half < width; half += 8) {
            StoreFirst<width - 8 * (width > 8)>(group + d * width + half, Eight(at + half));
          }
        } else {
          for (int64_t l = 0; l < width; ++l) {
            group[d * width + l] = first + l < lines ? Widen(at[l]) : 0;
          }
        }
      }
    }
  }
}

template <typename Lanes>
SLUICE_INLINE void PackedTile(const float* strip, const float* panel, int64_t depth, bool add,
                              int64_t rows, float* c, int64_t c_row, Lanes lanes) {
  F sum[kStripRows];
#pragma GCC unroll 6
  for (int64_t r = 0; r < kStripRows; ++r) {
    sum[r] = Splat(0);
    // What is added to or stored long after: both its lines come meanwhile.
    if (r < rows) {
      _mm_prefetch(c + r * c_row, _MM_HINT_T0);
      _mm_prefetch(c + r * c_row + kLanes - 1, _MM_HINT_T0);
    }
  }
  for (int64_t d = 0; d < depth; ++d) {
    const F row = Load(panel + d * kPanelColumns);
#pragma GCC unroll 6
    for (int64_t r = 0; r < kStripRows; ++r) {
      sum[r] = Fma(Splat(strip[d * kStripRows + r]), row, sum[r]);
    }
  }
#pragma GCC unroll 6
  for (int64_t r = 0; r < kStripRows; ++r) {
    if (r >= rows) return;
    float* const to = c + r * c_row;
    lanes(to, add ? lanes(static_cast<const float*>(to)) + sum[r] : sum[r]);
  }
}

// A panel stays in the first cache while all strips, which stay in the second, pass by it.
void Multiply(const float* strips, int64_t rows, const float* panels, int64_t columns,
              int64_t depth, bool add, float* c, int64_t c_row) {
  for (int64_t j = 0; j < columns; j += kPanelColumns) {
    const float* const panel = panels + j * depth;
    for (int64_t r = 0; r < rows; r += kStripRows) {
      const float* const strip = strips + r * depth;
      float* const to = c + r * c_row + j;
      if (j + kPanelColumns <= columns) {
        PackedTile(strip, panel, depth, add, rows - r, to, c_row, Whole());
      } else {
        PackedTile(strip, panel, depth, add, rows - r, to, c_row, Masked{First(columns - j)});
      }
    }
  }
}

// One row by six panels' columns of b as it lies: the same chains.
template <typename Lanes>
SLUICE_INLINE void RowOfTile(const float* strip, const float* b, int64_t b_row, int64_t groups,
                             int64_t depth, bool add, float* c, Lanes lanes) {
  F sum[6];
#pragma GCC unroll 6
  for (int64_t g = 0; g < 6; ++g) sum[g] = Splat(0);
  for (int64_t d = 0; d < depth; ++d) {
    const F x = Splat(strip[d * kStripRows]);
#pragma GCC unroll 6
    for (int64_t g = 0; g < 6; ++g) {
      if (g < groups) sum[g] = Fma(x, lanes(b + d * b_row + g * kLanes), sum[g]);
    }
  }
#pragma GCC unroll 6
  for (int64_t g = 0; g < 6; ++g) {
    if (g >= groups) return;
    float* const to = c + g * kLanes;
    lanes(to, add ? lanes(static_cast<const float*>(to)) + sum[g] : sum[g]);
  }
}

void MultiplyFew(const float* strips, int64_t rows, const float* b, int64_t b_row, int64_t columns,
                 int64_t depth, bool add, float* c, int64_t c_row) {
  constexpr int64_t kAtOnce = 6 * kLanes;
  for (int64_t j = 0; j < columns;) {
    const int64_t rest = columns - j;
    for (int64_t r = 0; r < rows; ++r) {
      const float* const strip = strips + r / kStripRows * kStripRows * depth + r % kStripRows;
      float* const to = c + r * c_row + j;
      if (rest >= kAtOnce) {
        RowOfTile(strip, b + j, b_row, 6, depth, add, to, Whole());
      } else if (rest >= kLanes) {
        RowOfTile(strip, b + j, b_row, 1, depth, add, to, Whole());
      } else {
        RowOfTile(strip, b + j, b_row, 1, depth, add, to, Masked{First(rest)});
      }
    }
    j += rest >= kAtOnce ? kAtOnce : kLanes;
  }
}

template <typename T>
constexpr PackLoops<T> PacksOf() {
  return {PackAlong<T, kStripRows>, PackAcross<T, kStripRows>, PackAlong<T, kPanelColumns>,
          PackAcross<T, kPanelColumns>};
}

}  // namespace

extern const TiledProductVector kTiledProduct = {PacksOf<float>(), PacksOf<BFloat16>(), Multiply,
                                                 MultiplyFew};

}  // namespace sluice::cpu::SLUICE_ISA
