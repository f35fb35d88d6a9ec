#include "framework/kernels/cpu/lanes.h"
#include "framework/kernels/cpu/vector.h"

namespace sluice::cpu::SLUICE_ISA {
namespace {

template <typename T>
void SumExp(const T* logits, const float* max, float* sum, int64_t rows, int64_t width) {
  for (int64_t r = 0; r < rows; ++r, logits += width) {
    const F top = Splat(max[r]);
    sum[r] = SumOver(
        width, [&](int64_t i, auto lanes) { return lanes.Keep(Exp(lanes(logits + i) - top)); });
  }
}

void Combine(const float* max, const float* sum, const float* picked, float* loss, int64_t n) {
  ForLanes(n, [&](int64_t i, auto lanes) {
    lanes(loss + i, CrossEntropyOf(lanes(max + i), lanes(sum + i), lanes(picked + i)));
  });
}

template <typename T>
void Gradient(const T* logits, const float* max, const float* sum, const float* dpicked,
              float share, T* dlogits, int64_t rows, int64_t width) {
  const bool streams = logits != dlogits && Streams(rows * width);
  for (int64_t r = 0; r < rows; ++r, logits += width, dlogits += width) {
    const F top = Splat(max[r]), factor = Splat(-dpicked[r] / sum[r]);
    const F alike = Splat(dpicked[r] * share);
    ForLanesTo(dlogits, width, streams, [&](int64_t i, auto lanes) {
      lanes(dlogits + i, factor * Exp(lanes(logits + i) - top) + alike);
    });
  }
}

template <typename T, typename Below>
SLUICE_INLINE float CountNot(const T* logits, int64_t n, Below&& below) {
  return SumOver(n, [&](int64_t i, auto lanes) {
    return lanes.Keep(Select(below(lanes(logits + i)), Splat(0), Splat(1)));
  });
}

template <typename T>
float NotBelow(const T* logits, float than, int64_t n) {
  return CountNot(logits, n, [than](F x) { return Less(x, Splat(than)); });
}

template <typename T>
float NotAtMost(const T* logits, float than, int64_t n) {
  return CountNot(logits, n, [than](F x) { return AtMost(x, Splat(than)); });
}

template <typename T>
constexpr CrossEntropyVector<T> LoopsOf() {
  return {SumExp<T>, Combine, Gradient<T>, NotBelow<T>, NotAtMost<T>};
}

void SigmoidLoss(const float* logits, const float* labels, float* loss, int64_t n) {
  ForLanes(n, [&](int64_t i, auto lanes) {
    lanes(loss + i, SigmoidCrossEntropyOf(lanes(logits + i), lanes(labels + i)));
  });
}

void SigmoidGradient(const float* logits, const float* labels, const float* dloss, float* dlogits,
                     int64_t n) {
  ForLanes(n, [&](int64_t i, auto lanes) {
    lanes(dlogits + i,
          SigmoidCrossEntropyGradientOf(lanes(logits + i), lanes(labels + i), lanes(dloss + i)));
  });
}

}  // namespace

extern const CrossEntropyVector<float> kCrossEntropy = LoopsOf<float>();
extern const SigmoidCrossEntropyVector kSigmoidCrossEntropy = {SigmoidLoss, SigmoidGradient};
extern const CrossEntropyVector<BFloat16> kCrossEntropyBf16 = LoopsOf<BFloat16>();

}  // namespace sluice::cpu::SLUICE_ISA
