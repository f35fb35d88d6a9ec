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

// total[g] of the sums that add(r, sum) makes over rows. Every 64 rows they are added to a second
// level of sums, which keeps long columns accurate.
template <int count, typename Add>
SLUICE_INLINE void SumRows(int64_t rows, F (&total)[count], Add&& add) {
  for (int g = 0; g < count; ++g) total[g] = Splat(0);
  for (int64_t begin = 0; begin < rows; begin += 64) {
    const int64_t end = begin + 64 < rows ? begin + 64 : rows;
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
    for (int g = 0; g < R::kCount; ++g) center[g] = lanes(mean + c + g * kLanes);
    SumRows(rows, total, [&](int64_t r, F* part) {
      for (int g = 0; g < R::kCount; ++g) {
        const F centred = lanes(x + r * width + c + g * kLanes) - center[g];
        part[g] = Fma(centred, centred, part[g]);
      }
    });
    for (int g = 0; g < R::kCount; ++g) lanes(sum + c + g * kLanes, total[g]);
  });
}

template <typename T>
void Sums(const T* dy, const T* x, const float* mean, float* dgamma, float* dbeta, int64_t rows,
          int64_t width) {
  ForColumns(width, [&]<typename R>(int64_t c, R, auto lanes) {
    constexpr int kCount = R::kCount;
    F center[kCount], total[2 * kCount];
    for (int g = 0; g < kCount; ++g) center[g] = lanes(mean + c + g * kLanes);
    SumRows(rows, total, [&](int64_t r, F* part) {
      for (int g = 0; g < kCount; ++g) {
        const int64_t at = r * width + c + g * kLanes;
        const F slope = lanes(dy + at);
        part[g] = Fma(slope, lanes(x + at) - center[g], part[g]);
        part[kCount + g] = part[kCount + g] + slope;
      }
    });
    for (int g = 0; g < kCount; ++g) {
      lanes(dgamma + c + g * kLanes, total[g]);
      lanes(dbeta + c + g * kLanes, total[kCount + g]);
    }
  });
}

template <typename T>
void Normalize(const T* x, const float* mean, const float* factor, const float* beta, T* y,
               int64_t rows, int64_t width) {
  for (int64_t r = 0; r < rows; ++r, x += width, y += width) {
    ForLanes(width, [&](int64_t i, auto lanes) {
      lanes(y + i, Fma(lanes(x + i) - lanes(mean + i), lanes(factor + i), lanes(beta + i)));
    });
  }
}

template <typename T>
void Gradient(const T* dy, const T* x, const float* mean, const float* factor, const float* shift,
              const float* slope, T* dx, int64_t rows, int64_t width) {
  for (int64_t r = 0; r < rows; ++r, dy += width, x += width, dx += width) {
    ForLanes(width, [&](int64_t i, auto lanes) {
      const F centred = lanes(x + i) - lanes(mean + i);
      const F left = lanes(dy + i) - lanes(shift + i) - centred * lanes(slope + i);
      lanes(dx + i, lanes(factor + i) * left);
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
  return {Squares<T>, Normalize<T>, Sums<T>, Gradient<T>};
}

}  // namespace

extern const BatchNormVector<float> kBatchNorm = LoopsOf<float>();
extern const BatchNormVector<BFloat16> kBatchNormBf16 = LoopsOf<BFloat16>();
extern const BatchStatisticsVector kBatchStatistics = {Rstd, MovingAverage};

}  // namespace sluice::cpu::SLUICE_ISA
