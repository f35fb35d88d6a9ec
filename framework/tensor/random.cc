#include "framework/tensor/random.h"

#include <algorithm>
#include <cmath>

namespace sluice {

int64_t RandomKey(absl::string_view name) {
  uint64_t hash = 14695981039346656037u;  // FNV-1a
  for (char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 1099511628211u;
  return static_cast<int64_t>(hash >> 2);
}

std::array<uint32_t, 2> PhiloxKey(uint64_t seed, int64_t key) {
  const uint64_t mixed =
      seed * 0x9e3779b97f4a7c15u ^ static_cast<uint64_t>(key) * 0xc2b2ae3d27d4eb4fu;
  return {static_cast<uint32_t>(mixed), static_cast<uint32_t>(mixed >> 32)};
}

std::array<uint32_t, 4> Philox(uint64_t seed, int64_t key, int64_t step, int64_t block) {
  // The 64-bit Philox key mixes seed and name; the 128-bit counter is (block, step).
  auto [k0, k1] = PhiloxKey(seed, key);
  uint32_t c0 = static_cast<uint32_t>(block), c1 = static_cast<uint32_t>(block >> 32);
  uint32_t c2 = static_cast<uint32_t>(step), c3 = static_cast<uint32_t>(step >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * c0, p1 = uint64_t{0xCD9E8D57} * c2;
    const uint32_t n0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    const uint32_t n2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c0 = n0, c1 = static_cast<uint32_t>(p1), c2 = n2, c3 = static_cast<uint32_t>(p0);
    k0 += 0x9E3779B9, k1 += 0xBB67AE85;
  }
  return {c0, c1, c2, c3};
}

uint32_t RandomWord(uint64_t seed, int64_t key, int64_t step, int64_t index) {
  return Philox(seed, key, step, index / 4)[index % 4];
}

uint32_t DropoutThreshold(double rate) {
  return static_cast<uint32_t>(std::min(std::floor(rate * 4294967296.0), 4294967295.0));
}

double RandomNormal(uint64_t seed, int64_t key, int64_t index) {
  const std::array<uint32_t, 4> words = Philox(seed, key, /*step=*/-1, index);
  const double u = (words[0] + 1.0) / 4294967296.0, v = words[1] / 4294967296.0;
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * M_PI * v);
}

double RandomUniform(uint64_t seed, int64_t key, int64_t index) {
  const double u = Philox(seed, key, /*step=*/-1, index)[0] / 4294967295.0;
  return std::sqrt(3.0) * (2 * u - 1);
}

}  // namespace sluice
