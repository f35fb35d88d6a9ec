#include "framework/kernels/cpu/lanes.h"
#include "framework/kernels/cpu/vector.h"

namespace sluice::cpu::SLUICE_ISA {
namespace {

template <typename T>
float RowSum(const T* x, int64_t n) {
  return SumOver(n, [&](int64_t i, auto lanes) { return lanes(x + i); });
}

template <typename T>
float RowMax(const T* x, int64_t n) {
  return MaxOver(n, x);
}

template <typename T>
float RowMin(const T* x, int64_t n) {
  float min = __builtin_inff();
  for (int64_t i = 0; i < n; ++i) {
    const float value = Widen(x[i]);
    min = min < value || min != min ? min : value;
  }
  return min;
}

struct SumOf {
  static constexpr float kIdentity = -0.0f;
  SLUICE_INLINE F operator()(F a, F b) const { return a + b; }
};
struct MaxOf {
  static constexpr float kIdentity = -__builtin_inff();
  SLUICE_INLINE F operator()(F a, F b) const { return Max(a, b); }
};
struct MinOf {
  static constexpr float kIdentity = __builtin_inff();
  SLUICE_INLINE F operator()(F a, F b) const { return Min(a, b); }
};

// Registers of columns at a time: rows may lie pages apart, so much should be taken of each.
#ifdef __AVX512F__
constexpr int kWide = 16;
#else
constexpr int kWide = 4;
#endif

// Two levels of sums, as in normalization_vector.cc.
template <typename Op, int groups, typename T, typename Lanes>
SLUICE_INLINE void SomeColumns(const T* x, int64_t rows, int64_t stride, float* y, Lanes lanes) {
  F total[groups];
  for (int g = 0; g < groups; ++g) total[g] = Splat(Op::kIdentity);
  for (int64_t begin = 0; begin < rows; begin += 64) {
    const int64_t end = begin + 64 < rows ? begin + 64 : rows;
    F part[groups];
    for (int g = 0; g < groups; ++g) part[g] = Splat(Op::kIdentity);
    for (int64_t r = begin; r < end; ++r) {
      for (int g = 0; g < groups; ++g) {
        part[g] = Op()(part[g], lanes(x + r * stride + g * kLanes));
      }
    }
    for (int g = 0; g < groups; ++g) total[g] = Op()(total[g], part[g]);
  }
  for (int g = 0; g < groups; ++g) {
    // A sum of nothing is 0, not the identity -0.
    lanes(y + g * kLanes, rows == 0 && Op::kIdentity == 0 ? Splat(0) : total[g]);
  }
}

template <typename Op, typename T>
void Columns(const T* x, int64_t rows, int64_t stride, float* y, int64_t columns) {
  int64_t c = 0;
  for (; c + kWide * kLanes <= columns; c += kWide * kLanes) {
    SomeColumns<Op, kWide>(x + c, rows, stride, y + c, Whole());
  }
  for (; c + kLanes <= columns; c += kLanes) {
    SomeColumns<Op, 1>(x + c, rows, stride, y + c, Whole());
  }
  if (c < columns) {
    SomeColumns<Op, 1>(x + c, rows, stride, y + c, Masked{First(columns - c)});
  }
}

// Sixteen sums in f64, folded by a fixed tree.
template <typename T, typename Term>
SLUICE_INLINE double DoubleSum(const T* x, int64_t n, Term&& term) {
  double sum[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int l = 0; l < kLanes; ++l) sum[l] += term(static_cast<double>(Widen(x[i + l])));
  }
  for (int l = 0; i + l < n; ++l) sum[l] += term(static_cast<double>(Widen(x[i + l])));
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int l = 0; l < width; ++l) sum[l] += sum[l + width];
  }
  return sum[0];
}

template <typename T>
double Sum(const T* x, int64_t n) {
  return DoubleSum(x, n, [](double a) { return a; });
}

template <typename T>
double SumSquares(const T* x, int64_t n) {
  return DoubleSum(x, n, [](double a) { return a * a; });
}

template <typename T>
constexpr ReductionVector<T> LoopsOf() {
  return {{RowSum<T>, RowMax<T>, RowMin<T>},
          {Columns<SumOf, T>, Columns<MaxOf, T>, Columns<MinOf, T>},
          Sum<T>,
          SumSquares<T>};
}

}  // namespace

extern const ReductionVector<float> kReduction = LoopsOf<float>();
extern const ReductionVector<BFloat16> kReductionBf16 = LoopsOf<BFloat16>();

}  // namespace sluice::cpu::SLUICE_ISA
