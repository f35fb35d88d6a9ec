// Counter-based random numbers (Philox4x32-10, Salmon et al. 2011): a draw is a function of
// (seed, name, step, logical index), so no layout, pass or recompute changes it.
#ifndef SLUICE_FRAMEWORK_TENSOR_RANDOM_H_
#define SLUICE_FRAMEWORK_TENSOR_RANDOM_H_

#include <array>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace sluice {

// Stable hash of a name, below 2^62 so that every text form can carry it.
int64_t RandomKey(absl::string_view name);

// The two words of the Philox key (seed, key), for vectorised copies of Philox.
std::array<uint32_t, 2> PhiloxKey(uint64_t seed, int64_t key);

// Four 32-bit words for counter (index / 4, step) under key (seed, key).
std::array<uint32_t, 4> Philox(uint64_t seed, int64_t key, int64_t step, int64_t block);

// The word of one logical index: Philox(.., index / 4)[index % 4].
uint32_t RandomWord(uint64_t seed, int64_t key, int64_t step, int64_t index);

// Whether dropout keeps the element: RandomWord >= rate * 2^32.
uint32_t DropoutThreshold(double rate);

// A normal deviate (mean 0, stddev 1) by Box-Muller from the two words of one index.
double RandomNormal(uint64_t seed, int64_t key, int64_t index);

// A uniform deviate of the same mean and stddev, from one of the two.
double RandomUniform(uint64_t seed, int64_t key, int64_t index);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TENSOR_RANDOM_H_
