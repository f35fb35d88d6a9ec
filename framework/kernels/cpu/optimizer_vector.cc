#include "framework/kernels/cpu/lanes.h"
#include "framework/kernels/cpu/vector.h"

namespace sluice::cpu::SLUICE_ISA {
namespace {

void Sgd(const SgdStep& step, const float* gradient, float* variable, int64_t n) {
  const F factor = Splat(step.factor), rate = Splat(step.learning_rate);
  const F decay = Splat(step.weight_decay);
  ForLanes(n, [&](int64_t i, auto lanes) {
    const F w = lanes(variable + i);
    const F g = factor * lanes(gradient + i) + decay * w;
    lanes(variable + i, w - rate * g);
  });
}

template <bool nesterov>
SLUICE_INLINE void SgdWithState(const SgdStep& step, const float* gradient, float* variable,
                                float* momentum, int64_t n) {
  const F factor = Splat(step.factor), rate = Splat(step.learning_rate);
  const F decay = Splat(step.weight_decay), kept = Splat(step.momentum);
  ForLanes(n, [&](int64_t i, auto lanes) {
    const F w = lanes(variable + i);
    const F g = factor * lanes(gradient + i) + decay * w;
    const F m = kept * lanes(momentum + i) + g;
    lanes(momentum + i, m);
    lanes(variable + i, w - rate * (nesterov ? g + kept * m : m));
  });
}

void SgdMomentum(const SgdStep& step, const float* gradient, float* variable, float* momentum,
                 int64_t n) {
  if (step.nesterov) return SgdWithState<true>(step, gradient, variable, momentum, n);
  SgdWithState<false>(step, gradient, variable, momentum, n);
}

// Brings the averages of a gradient up to date; put(i, lanes, their quotient).
template <typename Put>
SLUICE_INLINE void Adam(const AdamWStep& step, const float* gradient, float* m, float* v, int64_t n,
                        Put&& put) {
  const F factor = Splat(step.factor), rate = Splat(step.rate);
  const F beta1 = Splat(step.beta1), rest1 = Splat(step.one_minus_beta1);
  const F beta2 = Splat(step.beta2), rest2 = Splat(step.one_minus_beta2);
  const F root = Splat(step.root), epsilon = Splat(step.epsilon);
  ForLanes(n, [&](int64_t i, auto lanes) {
    const F g = factor * lanes(gradient + i);
    const F first = beta1 * lanes(m + i) + rest1 * g;
    const F second = beta2 * lanes(v + i) + rest2 * g * g;
    lanes(m + i, first);
    lanes(v + i, second);
    put(i, lanes, rate * first / (Sqrt(second) * root + epsilon));
  });
}

void AdamW(const AdamWStep& step, const float* gradient, float* variable, float* m, float* v,
           int64_t n) {
  const F decay = Splat(step.decay);
  Adam(step, gradient, m, v, n, [&](int64_t i, auto lanes, F quotient) {
    lanes(variable + i, decay * lanes(variable + i) - quotient);
  });
}

void AdamDirection(const AdamWStep& step, const float* gradient, const float* variable, float* m,
                   float* v, float* direction, int64_t n) {
  const F decay = Splat(step.decay);
  Adam(step, gradient, m, v, n, [&](int64_t i, auto lanes, F quotient) {
    lanes(direction + i, quotient + decay * lanes(variable + i));
  });
}

}  // namespace

extern const OptimizerVector kOptimizer = {Sgd, SgdMomentum, AdamW, AdamDirection};

}  // namespace sluice::cpu::SLUICE_ISA
