// Which weights of attention a shard drops: those that dropout would drop of an array of all
// weights, [batch, heads, queries, keys], of which a shard has some samples and some heads.
#ifndef SLUICE_FRAMEWORK_KERNELS_DROPPED_WEIGHTS_H_
#define SLUICE_FRAMEWORK_KERNELS_DROPPED_WEIGHTS_H_

#include <cstdint>

#include "framework/attributes/attributes.h"
#include "framework/tensor/random.h"
#include "framework/tensor/shard.h"

namespace sluice {

struct DroppedWeights {
  bool drops = false;
  int64_t key = 0;
  uint32_t threshold = 0;  // a word from which on the weight is kept
  float scale = 1;         // of those that are
  // Logical indices: of the shard's first weight at micro-batch 0, and what is added for each
  // micro-batch, sample and head. A head's are [queries, keys], one behind the other.
  int64_t first = 0, of_micro = 0, of_sample = 0, of_head = 0;

  // q: [batch, time, heads, size], of which time is whole.
  DroppedWeights(const AttentionAttributes& attributes, const Shard& q)
      : drops(attributes.rate > 0),
        key(attributes.key),
        threshold(DropoutThreshold(attributes.rate)),
        scale(static_cast<float>(1 / (1 - attributes.rate))) {
    of_head = q.logical[1] * q.logical[1];
    of_sample = q.logical[2] * of_head;
    first = q.offset[0] * of_sample + q.offset[2] * of_head;
    of_micro = q.stride_per_micro[0] * of_sample + q.stride_per_micro[2] * of_head;
  }
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_KERNELS_DROPPED_WEIGHTS_H_
