#include "framework/data/sample_order.h"

#include <algorithm>
#include <array>
#include <bit>

#include "framework/tensor/random.h"

namespace sluice {
namespace {

// Where `place` goes under the permutation of [0, size) that belongs to (seed, epoch): a Feistel
// network permutes the numbers of as many bits as `size` needs, and one that falls outside is
// permuted again until it falls inside. Numbers walk in circles there, so each place is reached
// once, and at most half of all numbers lie outside, so two walks do on average.
int64_t Permuted(int64_t place, int64_t size, uint64_t seed, int64_t epoch) {
  // Rounds, bits, words and the name of the draw are part of what runs are, as those of kRandom.
  // With fewer rounds or bits some samples stand in some places more often than in others, which
  // shows where there are few of them: five samples by 10 % with three bits, by nothing that
  // 200,000 epochs would tell with six. A few samples then take as many walks as fit into 64.
  constexpr int64_t kRounds = 8;
  constexpr int kLeastBits = 6;
  static const int64_t key = RandomKey("epoch");
  const int needed = static_cast<int>(std::bit_width(static_cast<uint64_t>(size - 1)));
  const int bits = std::max(kLeastBits, needed), low_bits = bits / 2, high_bits = bits - low_bits;
  const uint64_t low_mask = (uint64_t{1} << low_bits) - 1;
  const uint64_t high_mask = (uint64_t{1} << high_bits) - 1;
  auto at = static_cast<uint64_t>(place);
  do {
    uint64_t low = at & low_mask, high = at >> low_bits;
    for (int64_t round = 0; round < kRounds; ++round) {
      uint64_t& half = round % 2 == 0 ? low : high;
      const uint64_t other = round % 2 == 0 ? high : low;
      const int64_t block =
          round << 32 | static_cast<int64_t>(other);  // a half has 31 bits at most
      half ^= Philox(seed, key, epoch, block)[0] & (round % 2 == 0 ? low_mask : high_mask);
    }
    at = high << low_bits | low;
  } while (at >= static_cast<uint64_t>(size));
  return static_cast<int64_t>(at);
}

}  // namespace

int64_t SampleAt(const SampleOrder& order, int64_t position, int64_t num_samples) {
  if (order.kind == SampleOrder::kSpread) {
    const int64_t place = std::min(position, order.count - 1);
    return order.count == 1 ? 0 : place * (num_samples - 1) / (order.count - 1);
  }
  if (order.kind == SampleOrder::kEpochs) {
    return Permuted(position % num_samples, num_samples, order.seed, position / num_samples);
  }
  // The draw's name and the two words of which it is made are part of what runs are: another choice
  // would give every earlier run another order.
  static const int64_t key = RandomKey("sample");
  const std::array<uint32_t, 4> words = Philox(order.seed, key, /*step=*/0, position);
  const uint64_t word = uint64_t{words[0]} << 32 | words[1];
  return static_cast<int64_t>(word % static_cast<uint64_t>(num_samples));
}

}  // namespace sluice
