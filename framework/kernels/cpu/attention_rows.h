// What attention does with one row of scores, for attention*_vector.cc: softmax and its gradient,
// in f32 whatever is multiplied.
#ifndef SLUICE_FRAMEWORK_KERNELS_CPU_ATTENTION_ROWS_H_
#define SLUICE_FRAMEWORK_KERNELS_CPU_ATTENTION_ROWS_H_

#include "framework/kernels/cpu/dropout_lanes.h"
#include "framework/kernels/cpu/lanes.h"
#include "framework/kernels/cpu/vector.h"

namespace sluice::cpu::SLUICE_ISA {

// Columns of scores that are computed for a row that sees n keys: whole registers.
SLUICE_INLINE int64_t Padded(int64_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

// Keys that the row sees.
SLUICE_INLINE int64_t KeysOf(const AttentionHead& head, int64_t row) {
  return head.causal ? row + 1 : head.length;
}

template <typename T>
SLUICE_INLINE void Zero(T* x, int64_t n) {
  ForLanes(n, [&](int64_t i, auto lanes) { lanes(x + i, Splat(0)); });
}

// Weights of one row over its n keys before division by their sum, from unscaled scores. Columns up
// to `padded` become zero. A negative scale turns the maximum around.
SLUICE_INLINE void WeightRow(float* scores, int64_t n, int64_t padded, float scale, float* max,
                             float* sum) {
  const F factor = Splat(scale);
  if (scale < 0) {
    ForLanes(n, [&](int64_t i, auto lanes) { lanes(scores + i, lanes(scores + i) * factor); });
  }
  const F by = scale < 0 ? Splat(1) : factor;
  *max = MaxOver(n, scores) * (scale < 0 ? 1 : scale);
  const F top = Splat(*max);
  *sum = SumOver(n, [&](int64_t i, auto lanes) {
    const F e = lanes.Keep(Exp(lanes(scores + i) * by - top));
    lanes(scores + i, e);
    return e;
  });
  Zero(scores + n, padded - n);
}

// Of a row's weights over its n keys, or of what their slopes are before softmax: what is dropped
// becomes zero.
SLUICE_INLINE void DropRow(const AttentionHead& head, int64_t query, int64_t n, float* row) {
  const WeightDropout& dropout = head.dropout;
  if (!dropout.drops) return;
  Dropout(dropout.draw, dropout.threshold, dropout.scale, dropout.first + query * head.time, row,
          row, n);
}

// Of one row: weights from scores, and score slopes from dy v^T. Slopes sum to zero over a row, and
// `partial` alone does not see to that: it is rounded, for all keys alike, and early in training
// keys have much in common while slopes are small. So their mean is taken off a second time.
SLUICE_INLINE void SlopeRow(float* weights, float* slopes, int64_t n, int64_t padded, float scale,
                            float logsumexp, float partial) {
  const F factor = Splat(scale), top = Splat(logsumexp), delta = Splat(partial);
  const float sum = SumOver(n, [&](int64_t i, auto lanes) {
    const F weight = lanes.Keep(Exp(lanes(weights + i) * factor - top));
    lanes(weights + i, weight);
    return weight;
  });
  const float rest = SumOver(
      n, [&](int64_t i, auto lanes) { return lanes(weights + i) * (lanes(slopes + i) - delta); });
  const F mean = Splat(n > 1 ? rest / sum : slopes[0] - partial);  // exactly zero is left of one
  ForLanes(n, [&](int64_t i, auto lanes) {
    lanes(slopes + i, (lanes(slopes + i) - delta - mean) * lanes(weights + i) * factor);
  });
  Zero(weights + n, padded - n);
  Zero(slopes + n, padded - n);
}

}  // namespace sluice::cpu::SLUICE_ISA

#endif  // SLUICE_FRAMEWORK_KERNELS_CPU_ATTENTION_ROWS_H_
