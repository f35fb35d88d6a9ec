// How much of attention's scores a card has in memory at a time, where a library makes its
// products: its workspace, and a mask of dropped weights. One rule for kernels and for what ops say
// of their scratch.
#ifndef SLUICE_FRAMEWORK_TENSOR_SCORE_BYTES_H_
#define SLUICE_FRAMEWORK_TENSOR_SCORE_BYTES_H_

#include <cstdint>

namespace sluice {

// More heads at once fill a card better: the gradient of GPT-2 124M's attention, 16 samples of
// 1024, takes an H100 587 us by two samples, 394 by eight and 350 by all. In a step this is the
// memory that logits had before.
constexpr int64_t kMostScoreBytes = int64_t{512} << 20;

// Of so many heads, two bytes a score, in whole tiles as a gradient's workspace is.
constexpr int64_t ScoreBytes(int64_t heads, int64_t time) {
  constexpr int64_t kTile = 128;
  const int64_t padded = (time + kTile - 1) / kTile * kTile;
  return 2 * heads * padded * padded;
}

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TENSOR_SCORE_BYTES_H_
