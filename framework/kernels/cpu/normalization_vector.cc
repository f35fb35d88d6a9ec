#include "framework/kernels/cpu/lanes.h"
#include "framework/kernels/cpu/vector.h"

namespace sluice::cpu::SLUICE_ISA {
namespace {

// A pass over a few rows before the next one over the same: while one row's sum is folded, divided
// and rooted, the next one's is under way. From pass to pass they stay in the first cache.
void LayerNorm(const float* x, const float* gamma, const float* beta, float epsilon, float* y,
               float* mean, float* rstd, int64_t rows, int64_t width) {
  constexpr int64_t kRows = 4;
  const float count = static_cast<float>(width);
  for (int64_t begin = 0; begin < rows; begin += kRows) {
    const int64_t end = begin + kRows < rows ? begin + kRows : rows;
    for (int64_t r = begin; r < end; ++r) {
      const float* row = x + r * width;
      mean[r] = SumOver(width, [&](int64_t i, auto lanes) { return lanes(row + i); }) / count;
    }
    for (int64_t r = begin; r < end; ++r) {
      const float* row = x + r * width;
      const F center = Splat(mean[r]);
      const float squares = SumOver(width, [&](int64_t i, auto lanes) {
        const F d = lanes.Keep(lanes(row + i) - center);
        return d * d;
      });
      rstd[r] = 1 / __builtin_sqrtf(squares / count + epsilon);
    }
    for (int64_t r = begin; r < end; ++r) {
      const float* row = x + r * width;
      float* to = y + r * width;
      const F center = Splat(mean[r]), scale = Splat(rstd[r]);
      ForLanes(width, [&](int64_t i, auto lanes) {
        lanes(to + i, Fma((lanes(row + i) - center) * scale, lanes(gamma + i), lanes(beta + i)));
      });
    }
  }
}

void Gradient(const float* dy, const float* x, const float* gamma, const float* mean,
              const float* rstd, float* dx, int64_t rows, int64_t width) {
  const float count = static_cast<float>(width);
  for (int64_t r = 0; r < rows; ++r, x += width, dy += width, dx += width) {
    const F center = Splat(mean[r]), scale = Splat(rstd[r]);
    const float sum =
        SumOver(width, [&](int64_t i, auto lanes) { return lanes(dy + i) * lanes(gamma + i); });
    const float dot = SumOver(width, [&](int64_t i, auto lanes) {
      return lanes(dy + i) * lanes(gamma + i) * ((lanes(x + i) - center) * scale);
    });
    const F mean_slope = Splat(sum / count), mean_dot = Splat(dot / count);
    ForLanes(width, [&](int64_t i, auto lanes) {
      const F normal = (lanes(x + i) - center) * scale;
      const F slope = lanes(dy + i) * lanes(gamma + i);
      lanes(dx + i, scale * (slope - mean_slope - normal * mean_dot));
    });
  }
}

// Registers of columns at a time: rows may lie pages apart, so much should be taken of each.
#ifdef __AVX512F__
constexpr int kWide = 8;
#else
constexpr int kWide = 4;
#endif

// A few columns at a time, so that the sums stay in registers; every 64 rows they are added to a
// second level of sums, which keeps long columns accurate.
template <int groups, typename Lanes>
SLUICE_INLINE void ParameterColumns(const float* dy, const float* x, const float* mean,
                                    const float* rstd, float* dgamma, float* dbeta, int64_t rows,
                                    int64_t width, Lanes lanes) {
  F total_gamma[groups], total_beta[groups];
  for (int g = 0; g < groups; ++g) total_gamma[g] = total_beta[g] = Splat(0);
  for (int64_t begin = 0; begin < rows; begin += 64) {
    const int64_t end = begin + 64 < rows ? begin + 64 : rows;
    F sum_gamma[groups], sum_beta[groups];
    for (int g = 0; g < groups; ++g) sum_gamma[g] = sum_beta[g] = Splat(0);
    for (int64_t r = begin; r < end; ++r) {
      const F center = Splat(mean[r]), scale = Splat(rstd[r]);
      for (int g = 0; g < groups; ++g) {
        const F slope = lanes(dy + r * width + g * kLanes);
        const F normal = (lanes(x + r * width + g * kLanes) - center) * scale;
        sum_gamma[g] = Fma(slope, normal, sum_gamma[g]);
        sum_beta[g] = sum_beta[g] + slope;
      }
    }
    for (int g = 0; g < groups; ++g) {
      total_gamma[g] = total_gamma[g] + sum_gamma[g];
      total_beta[g] = total_beta[g] + sum_beta[g];
    }
  }
  for (int g = 0; g < groups; ++g) {
    lanes(dgamma + g * kLanes, total_gamma[g]);
    lanes(dbeta + g * kLanes, total_beta[g]);
  }
}

void ParameterGradient(const float* dy, const float* x, const float* mean, const float* rstd,
                       float* dgamma, float* dbeta, int64_t rows, int64_t width, int64_t begin,
                       int64_t end) {
  int64_t c = begin;
  for (; c + kWide * kLanes <= end; c += kWide * kLanes) {
    ParameterColumns<kWide>(dy + c, x + c, mean, rstd, dgamma + c, dbeta + c, rows, width, Whole());
  }
  for (; c + kLanes <= end; c += kLanes) {
    ParameterColumns<1>(dy + c, x + c, mean, rstd, dgamma + c, dbeta + c, rows, width, Whole());
  }
  if (c < end) {
    ParameterColumns<1>(dy + c, x + c, mean, rstd, dgamma + c, dbeta + c, rows, width,
                        Masked{First(end - c)});
  }
}

}  // namespace

extern const NormalizationVector kNormalization = {LayerNorm, Gradient, ParameterGradient};

}  // namespace sluice::cpu::SLUICE_ISA
