#include "framework/kernels/cpu/dropout_lanes.h"
#include "framework/kernels/cpu/lanes.h"
#include "framework/kernels/cpu/vector.h"

namespace sluice::cpu::SLUICE_ISA {
namespace {

template <F (*formula)(F), typename T>
void Map(const T* x, T* y, int64_t n) {
  ForLanesTo(y, n, x != y && Streams(n),
             [&](int64_t i, auto lanes) { lanes(y + i, formula(lanes(x + i))); });
}

template <F (*formula)(F, F), typename T>
void MapTwo(const T* a, const T* b, T* y, int64_t n) {
  ForLanesTo(y, n, a != y && b != y && Streams(n),
             [&](int64_t i, auto lanes) { lanes(y + i, formula(lanes(a + i), lanes(b + i))); });
}

template <typename T>
void GeluGradient(const T* x, const T* dy, T* dx, int64_t n) {
  ForLanesTo(dx, n, x != dx && dy != dx && Streams(n), [&](int64_t i, auto lanes) {
    Prefetch(x + i);
    Prefetch(dy + i);
    lanes(dx + i, GeluGradientOf(lanes(x + i), lanes(dy + i)));
  });
}

template <typename T>
void Softmax(const T* x, T* y, int64_t rows, int64_t width) {
  for (int64_t r = 0; r < rows; ++r, x += width, y += width) {
    const F max = Splat(MaxOver(width, x));
    const float sum = SumOver(width, [&](int64_t i, auto lanes) {
      const F e = Exp(lanes(x + i) - max);
      lanes(y + i, e);
      return lanes.Keep(e);
    });
    const F factor = Splat(1 / sum);
    ForLanes(width, [&](int64_t i, auto lanes) { lanes(y + i, lanes(y + i) * factor); });
  }
}

template <typename T>
void SoftmaxGradient(const T* y, const T* dy, T* dx, int64_t rows, int64_t width) {
  for (int64_t r = 0; r < rows; ++r, y += width, dy += width, dx += width) {
    const F dot =
        Splat(SumOver(width, [&](int64_t i, auto lanes) { return lanes(y + i) * lanes(dy + i); }));
    ForLanes(width,
             [&](int64_t i, auto lanes) { lanes(dx + i, lanes(y + i) * (lanes(dy + i) - dot)); });
  }
}

template <typename T>
constexpr ActivationVector<T> LoopsOf() {
  return {Map<GeluOf, T>,
          Map<GeluErfOf, T>,
          Map<SiluOf, T>,
          Map<SigmoidOf, T>,
          Map<TanhOf, T>,
          Map<ReluOf, T>,
          GeluGradient<T>,
          MapTwo<GeluErfGradientOf, T>,
          MapTwo<SiluGradientOf, T>,
          MapTwo<SigmoidGradientOf, T>,
          MapTwo<TanhGradientOf, T>,
          MapTwo<ReluGradientOf, T>,
          Softmax<T>,
          SoftmaxGradient<T>,
          Dropout<T>};
}

}  // namespace

extern const ActivationVector<float> kActivation = LoopsOf<float>();
extern const ActivationVector<BFloat16> kActivationBf16 = LoopsOf<BFloat16>();

}  // namespace sluice::cpu::SLUICE_ISA
