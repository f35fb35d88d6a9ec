#include "framework/kernels/cpu/lanes.h"
#include "framework/kernels/cpu/vector.h"

namespace sluice::cpu::SLUICE_ISA {
namespace {

template <typename T>
void Prelu(const T* x, const float* slope, T* y, int64_t rows, int64_t width) {
  for (int64_t r = 0; r < rows; ++r, x += width, y += width) {
    ForLanes(width,
             [&](int64_t i, auto lanes) { lanes(y + i, PreluOf(lanes(x + i), lanes(slope + i))); });
  }
}

template <typename T>
void PreluGradient(const T* x, const float* slope, const T* dy, T* dx, int64_t rows,
                   int64_t width) {
  for (int64_t r = 0; r < rows; ++r, x += width, dy += width, dx += width) {
    ForLanes(width, [&](int64_t i, auto lanes) {
      lanes(dx + i, PreluGradientOf(lanes(x + i), lanes(slope + i), lanes(dy + i)));
    });
  }
}

// Every 64 rows sums are added to a second level of sums, which keeps long columns accurate.
template <typename T>
void PreluSlopeGradient(const T* x, const T* dy, float* dslope, int64_t rows, int64_t width) {
  ForLanes(width, [&](int64_t i, auto lanes) {
    F total = Splat(0);
    for (int64_t begin = 0; begin < rows; begin += 64) {
      const int64_t end = begin + 64 < rows ? begin + 64 : rows;
      F sum = Splat(0);
      for (int64_t r = begin; r < end; ++r) {
        sum = sum + PreluSlopeTerm(lanes(x + r * width + i), lanes(dy + r * width + i));
      }
      total = total + sum;
    }
    lanes(dslope + i, total);
  });
}

// What a row is divided by; NaN stays NaN.
SLUICE_INLINE float DivisorOf(float length, float epsilon) {
  return length < epsilon ? epsilon : length;
}

template <typename T>
void L2Normalize(const T* x, float epsilon, T* y, float* length, int64_t rows, int64_t width) {
  for (int64_t r = 0; r < rows; ++r, x += width, y += width) {
    length[r] = __builtin_sqrtf(SumOver(width, [&](int64_t i, auto lanes) {
      const F a = lanes(x + i);
      return a * a;
    }));
    const F divisor = Splat(DivisorOf(length[r], epsilon));
    ForLanes(width, [&](int64_t i, auto lanes) { lanes(y + i, lanes(x + i) / divisor); });
  }
}

// The part of dy along the row is taken off, but where the row was divided by epsilon.
template <typename T>
void L2NormalizeGradient(const T* x, const float* length, float epsilon, const T* dy, T* dx,
                         int64_t rows, int64_t width) {
  for (int64_t r = 0; r < rows; ++r, x += width, dy += width, dx += width) {
    const float divisor = DivisorOf(length[r], epsilon);
    float dot = 0;
    if (!(length[r] < epsilon)) {
      dot = SumOver(width, [&](int64_t i, auto lanes) { return lanes(dy + i) * lanes(x + i); });
      dot = dot / divisor / divisor;
    }
    const F along = Splat(dot), whole = Splat(divisor);
    ForLanes(width, [&](int64_t i, auto lanes) {
      lanes(dx + i, (lanes(dy + i) - lanes(x + i) * along) / whole);
    });
  }
}

template <typename T>
constexpr ChannelVector<T> LoopsOf() {
  return {Prelu<T>, PreluGradient<T>, PreluSlopeGradient<T>, L2Normalize<T>,
          L2NormalizeGradient<T>};
}

}  // namespace

extern const ChannelVector<float> kChannel = LoopsOf<float>();
extern const ChannelVector<BFloat16> kChannelBf16 = LoopsOf<BFloat16>();

}  // namespace sluice::cpu::SLUICE_ISA
