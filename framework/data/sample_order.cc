#include "framework/data/sample_order.h"

#include <array>

#include "framework/tensor/random.h"

namespace sluice {

int64_t SampleAt(const SampleOrder& order, int64_t position, int64_t num_samples) {
  if (order.kind == SampleOrder::kSpread) {
    return order.count == 1 ? 0 : position * (num_samples - 1) / (order.count - 1);
  }
  // The draw's name and the two words of which it is made are part of what runs are: another choice
  // would give every earlier run another order.
  static const int64_t key = RandomKey("sample");
  const std::array<uint32_t, 4> words = Philox(order.seed, key, /*step=*/0, position);
  const uint64_t word = uint64_t{words[0]} << 32 | words[1];
  return static_cast<int64_t>(word % static_cast<uint64_t>(num_samples));
}

}  // namespace sluice
