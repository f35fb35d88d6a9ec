#include "framework/kernels/cpu/lanes.h"
#include "framework/kernels/cpu/vector.h"

namespace sluice::cpu::SLUICE_ISA {
namespace {

void SumExp(const float* logits, const float* max, float* sum, int64_t rows, int64_t width) {
  for (int64_t r = 0; r < rows; ++r, logits += width) {
    const F top = Splat(max[r]);
    sum[r] = SumOver(
        width, [&](int64_t i, auto lanes) { return lanes.Keep(Exp(lanes(logits + i) - top)); });
  }
}

void Combine(const float* max, const float* sum, const float* picked, float* loss, int64_t n) {
  ForLanes(n, [&](int64_t i, auto lanes) {
    lanes(loss + i, Log(lanes(sum + i)) + lanes(max + i) - lanes(picked + i));
  });
}

void Gradient(const float* logits, const float* max, const float* sum, const float* dpicked,
              float* dlogits, int64_t rows, int64_t width) {
  const bool streams = logits != dlogits && Streams(rows * width);
  for (int64_t r = 0; r < rows; ++r, logits += width, dlogits += width) {
    const F top = Splat(max[r]), factor = Splat(-dpicked[r] / sum[r]);
    ForLanesTo(dlogits, width, streams, [&](int64_t i, auto lanes) {
      lanes(dlogits + i, factor * Exp(lanes(logits + i) - top));
    });
  }
}

}  // namespace

extern const CrossEntropyVector kCrossEntropy = {SumExp, Combine, Gradient};

}  // namespace sluice::cpu::SLUICE_ISA
