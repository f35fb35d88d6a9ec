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

void Adagrad(const AdagradStep& step, const float* gradient, float* variable, float* sum,
             int64_t n) {
  const F factor = Splat(step.factor), rate = Splat(step.learning_rate);
  const F decay = Splat(step.weight_decay), epsilon = Splat(step.epsilon);
  ForLanes(n, [&](int64_t i, auto lanes) {
    const F w = lanes(variable + i);
    const F g = factor * lanes(gradient + i) + decay * w;
    const F grown = lanes(sum + i) + g * g;
    lanes(sum + i, grown);
    lanes(variable + i, w - rate * g / (Sqrt(grown) + epsilon));
  });
}

// What two roots differ by is g^2 over their sum, which keeps the digits that a difference of large
// roots loses.
void Ftrl(const FtrlStep& step, const float* gradient, float* variable, float* z, float* n,
          int64_t count) {
  const F factor = Splat(step.factor), rate = Splat(step.learning_rate), zero = Splat(0);
  const F l1 = Splat(step.l1), l2 = Splat(step.l2), beta = Splat(step.beta);
  ForLanes(count, [&](int64_t i, auto lanes) {
    const F g = factor * lanes(gradient + i), square = g * g, before = lanes(n + i);
    const F grown = before + square;
    const F root = Sqrt(grown), roots = root + Sqrt(before);
    const F risen = Select(AtMost(roots, zero), zero, square / roots);
    const F kept = lanes(z + i) + g - risen / rate * lanes(variable + i);
    lanes(z + i, kept);
    lanes(n + i, grown);
    const F length = Max(kept, zero - kept);
    const F beyond = Select(Less(kept, zero), length - l1, l1 - length);
    lanes(variable + i, Select(AtMost(length, l1), zero, beyond / ((beta + root) / rate + l2)));
  });
}

}  // namespace

extern const OptimizerVector kOptimizer = {Sgd, SgdMomentum, AdamW, AdamDirection, Adagrad, Ftrl};

}  // namespace sluice::cpu::SLUICE_ISA
