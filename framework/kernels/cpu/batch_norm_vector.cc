#include "framework/kernels/cpu/lanes.h"
#include "framework/kernels/cpu/vector.h"

namespace sluice::cpu::SLUICE_ISA {
namespace {

// fn(c, registers, lanes): columns from c on, so many registers of them at a time. Rows may lie
// pages apart, so much should be taken of each.
template <int count>
struct Registers {
  static constexpr int kCount = count;
};
template <typename Fn>
SLUICE_INLINE void ForColumns(int64_t width, Fn&& fn) {
  int64_t c = 0;
#ifdef __AVX512F__
  for (; c + 8 * kLanes <= width; c += 8 * kLanes) fn(c, Registers<8>(), Whole());
#endif
  for (; c + 4 * kLanes <= width; c += 4 * kLanes) fn(c, Registers<4>(), Whole());
  for (; c + kLanes <= width; c += kLanes) fn(c, Registers<1>(), Whole());
  if (c < width) fn(c, Registers<1>(), Masked{First(width - c)});
}

constexpr int64_t kBlockRows = 64;

// Adds to total[g] the sums that add(r, sum) makes over rows. Every so many rows they are added to
// a second level of sums, which keeps long columns accurate.
template <int count, typename Add>
SLUICE_INLINE void SumRows(int64_t rows, F (&total)[count], Add&& add) {
  for (int64_t begin = 0; begin < rows; begin += kBlockRows) {
    const int64_t end = begin + kBlockRows < rows ? begin + kBlockRows : rows;
    F sum[count];
    for (int g = 0; g < count; ++g) sum[g] = Splat(0);
    for (int64_t r = begin; r < end; ++r) add(r, sum);
    for (int g = 0; g < count; ++g) total[g] = total[g] + sum[g];
  }
}

template <typename T>
void Squares(const T* x, const float* mean, float* sum, int64_t rows, int64_t width) {
  ForColumns(width, [&]<typename R>(int64_t c, R, auto lanes) {
    F center[R::kCount], total[R::kCount];
    for (int g = 0; g < R::kCount; ++g) {
      center[g] = lanes(mean + c + g * kLanes);
      total[g] = Splat(0);
    }
    SumRows(rows, total, [&](int64_t r, F* part) {
      for (int g = 0; g < R::kCount; ++g) {
        const F centred = lanes(x + r * width + c + g * kLanes) - center[g];
        part[g] = Fma(centred, centred, part[g]);
      }
    });
    for (int g = 0; g < R::kCount; ++g) lanes(sum + c + g * kLanes, total[g]);
  });
}

// What the norm makes of the elements at x + at, which are of the columns from c on.
template <typename T>
SLUICE_INLINE F Normal(const T* x, int64_t at, const ChannelNorm& norm, int64_t c, auto lanes) {
  const F centred = lanes(x + at) - lanes(norm.mean + c);
  return Fma(centred, lanes(norm.factor + c), lanes(norm.beta + c));
}

// slope(at, c, lanes): the gradient at an element, of column c. Where `more`, dgamma and dbeta have
// the sums of the rows before these.
template <typename T, typename Slope>
SLUICE_INLINE void SumSlopes(const T* x, const float* mean, float* dgamma, float* dbeta,
                             int64_t rows, int64_t width, bool more, Slope&& slope) {
  ForColumns(width, [&]<typename R>(int64_t c, R, auto lanes) {
    constexpr int kCount = R::kCount;
    F center[kCount], total[2 * kCount];
    for (int g = 0; g < kCount; ++g) {
      center[g] = lanes(mean + c + g * kLanes);
      total[g] = more ? lanes(dgamma + c + g * kLanes) : Splat(0);
      total[kCount + g] = more ? lanes(dbeta + c + g * kLanes) : Splat(0);
    }
    SumRows(rows, total, [&](int64_t r, F* part) {
      for (int g = 0; g < kCount; ++g) {
        const int64_t column = c + g * kLanes, at = r * width + column;
        const F dy = slope(at, column, lanes);
        part[g] = Fma(dy, lanes(x + at) - center[g], part[g]);
        part[kCount + g] = part[kCount + g] + dy;
      }
    });
    for (int g = 0; g < kCount; ++g) {
      lanes(dgamma + c + g * kLanes, total[g]);
      lanes(dbeta + c + g * kLanes, total[kCount + g]);
    }
  });
}

template <typename T>
void Sums(const T* dy, const T* x, const float* mean, float* dgamma, float* dbeta, int64_t rows,
          int64_t width) {
  SumSlopes(x, mean, dgamma, dbeta, rows, width, /*more=*/false,
            [&](int64_t at, int64_t, auto lanes) { return lanes(dy + at); });
}

template <typename T>
void ReluSums(const T* dy, const T* x, const ChannelNorm& norm, float* dgamma, float* dbeta,
              int64_t rows, int64_t width) {
  SumSlopes(x, norm.mean, dgamma, dbeta, rows, width, /*more=*/false,
            [&](int64_t at, int64_t c, auto lanes) {
              return ReluGradientOf(Rounded<T>(Normal(x, at, norm, c, lanes)), lanes(dy + at));
            });
}

// Makes dz by rows and sums it by columns, some rows at a time, which stay in the cache meanwhile.
// Four tensors read and one written by columns took as long as all the passes that this replaces:
// rows lie whole pages apart, where nothing is prefetched, and stores wait for loads that have the
// same place in a page.
template <typename T>
void AddReluSums(const ReluGradients<T>& relu, const T* x, const float* mean, float* dgamma,
                 float* dbeta, int64_t rows, int64_t width) {
  int64_t r = 0;
  do {  // of no rows the sums are zero
    const int64_t count = r + kBlockRows < rows ? kBlockRows : rows - r, first = r * width;
    const T *const y = relu.y + first, *const dy = relu.dy + first;
    T* const dz = relu.dz + first;
    const auto mask = [&](auto&& gradient) {
      ForLanes(count * width, [&](int64_t i, auto lanes) {
        __builtin_prefetch(x + first + i);
        lanes(dz + i, ReluGradientOf(lanes(y + i), gradient(i, lanes)));
      });
    };
    if (relu.other_dy == nullptr) {
      mask([&](int64_t i, auto lanes) { return lanes(dy + i); });
    } else {
      const T* const other = relu.other_dy + first;
      mask([&](int64_t i, auto lanes) { return Rounded<T>(lanes(dy + i) + lanes(other + i)); });
    }
    SumSlopes(x + first, mean, dgamma, dbeta, count, width, /*more=*/r > 0,
              [&](int64_t at, int64_t, auto lanes) { return lanes(dz + at); });
    r += kBlockRows;
  } while (r < rows);
}

template <typename T, bool adds, bool rectifies>
void Normalize(const T* x, const ChannelNorm& norm, const T* addend, T* y, int64_t rows,
               int64_t width) {
  for (int64_t r = 0; r < rows; ++r, x += width, y += width) {
    ForLanes(width, [&](int64_t i, auto lanes) {
      F value = Normal(x, i, norm, i, lanes);
      if constexpr (adds) value = Rounded<T>(value) + lanes(addend + i);
      if constexpr (rectifies) value = Rounded<T>(value);
      if constexpr (rectifies) value = ReluOf(value);
      lanes(y + i, value);
    });
    if constexpr (adds) addend += width;
  }
}

template <typename T, bool rectified>
void Gradient(const T* dy, const T* x, const ChannelNorm& norm, const float* shift,
              const float* slope, T* dx, int64_t rows, int64_t width) {
  for (int64_t r = 0; r < rows; ++r, dy += width, x += width, dx += width) {
    ForLanes(width, [&](int64_t i, auto lanes) {
      const F centred = lanes(x + i) - lanes(norm.mean + i);
      F gradient = lanes(dy + i);
      if constexpr (rectified) {
        gradient = ReluGradientOf(Rounded<T>(Normal(x, i, norm, i, lanes)), gradient);
      }
      const F left = gradient - lanes(shift + i) - centred * lanes(slope + i);
      lanes(dx + i, lanes(norm.factor + i) * left);
    });
  }
}

void Rstd(const float* variance, float epsilon, float* rstd, int64_t n) {
  ForLanes(n, [&](int64_t i, auto lanes) {
    lanes(rstd + i, Splat(1) / Sqrt(lanes(variance + i) + Splat(epsilon)));
  });
}

void MovingAverage(float kept, float momentum, const float* value, float* average, int64_t n) {
  ForLanes(n, [&](int64_t i, auto lanes) {
    lanes(average + i, Splat(kept) * lanes(average + i) + Splat(momentum) * lanes(value + i));
  });
}

template <typename T>
constexpr BatchNormVector<T> LoopsOf() {
  return {Squares<T>,
          Normalize<T, false, false>,
          Normalize<T, false, true>,
          Normalize<T, true, false>,
          Normalize<T, true, true>,
          Sums<T>,
          ReluSums<T>,
          AddReluSums<T>,
          Gradient<T, false>,
          Gradient<T, true>};
}

}  // namespace

extern const BatchNormVector<float> kBatchNorm = LoopsOf<float>();
extern const BatchNormVector<BFloat16> kBatchNormBf16 = LoopsOf<BFloat16>();
extern const BatchStatisticsVector kBatchStatistics = {Rstd, MovingAverage};

}  // namespace sluice::cpu::SLUICE_ISA
