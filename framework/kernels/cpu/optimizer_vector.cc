#include "framework/kernels/cpu/lanes.h"
#include "framework/kernels/cpu/vector.h"

namespace sluice::cpu::SLUICE_ISA {
namespace {

void Sgd(const SgdStep& step, const float* gradient, float* variable, int64_t n) {
  const SgdLanes s = InLanes(step);
  ForLanes(n, [&](int64_t i, auto lanes) {
    lanes(variable + i, SgdOf(s, lanes(gradient + i), lanes(variable + i)));
  });
}

template <bool nesterov>
SLUICE_INLINE void SgdWithState(const SgdStep& step, const float* gradient, float* variable,
                                float* momentum, int64_t n) {
  const SgdLanes s = InLanes(step);
  ForLanes(n, [&](int64_t i, auto lanes) {
    F m = lanes(momentum + i);
    const F w = SgdMomentumOf<nesterov>(s, lanes(gradient + i), lanes(variable + i), &m);
    lanes(momentum + i, m);
    lanes(variable + i, w);
  });
}

void SgdMomentum(const SgdStep& step, const float* gradient, float* variable, float* momentum,
                 int64_t n) {
  if (step.nesterov) return SgdWithState<true>(step, gradient, variable, momentum, n);
  SgdWithState<false>(step, gradient, variable, momentum, n);
}

void AdamW(const AdamWStep& step, const float* gradient, float* variable, float* m, float* v,
           int64_t n) {
  const AdamLanes s = InLanes(step);
  ForLanes(n, [&](int64_t i, auto lanes) {
    F first = lanes(m + i), second = lanes(v + i);
    const F w = AdamWOf(s, lanes(gradient + i), lanes(variable + i), &first, &second);
    lanes(m + i, first);
    lanes(v + i, second);
    lanes(variable + i, w);
  });
}

void AdamDirection(const AdamWStep& step, const float* gradient, const float* variable, float* m,
                   float* v, float* direction, int64_t n) {
  const AdamLanes s = InLanes(step);
  ForLanes(n, [&](int64_t i, auto lanes) {
    F first = lanes(m + i), second = lanes(v + i);
    const F d = AdamDirectionOf(s, lanes(gradient + i), lanes(variable + i), &first, &second);
    lanes(m + i, first);
    lanes(v + i, second);
    lanes(direction + i, d);
  });
}

void Adagrad(const AdagradStep& step, const float* gradient, float* variable, float* sum,
             int64_t n) {
  const AdagradLanes s = InLanes(step);
  ForLanes(n, [&](int64_t i, auto lanes) {
    F grown = lanes(sum + i);
    const F w = AdagradOf(s, lanes(gradient + i), lanes(variable + i), &grown);
    lanes(sum + i, grown);
    lanes(variable + i, w);
  });
}

void Ftrl(const FtrlStep& step, const float* gradient, float* variable, float* z, float* n,
          int64_t count) {
  const FtrlLanes s = InLanes(step);
  ForLanes(count, [&](int64_t i, auto lanes) {
    F kept = lanes(z + i), grown = lanes(n + i);
    const F w = FtrlOf(s, lanes(gradient + i), lanes(variable + i), &kept, &grown);
    lanes(z + i, kept);
    lanes(n + i, grown);
    lanes(variable + i, w);
  });
}

}  // namespace

extern const OptimizerVector kOptimizer = {Sgd, SgdMomentum, AdamW, AdamDirection, Adagrad, Ftrl};

}  // namespace sluice::cpu::SLUICE_ISA
