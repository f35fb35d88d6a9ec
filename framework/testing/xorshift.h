// Random numbers of tests that draw millions of them: the same on every machine, and fast.
#ifndef SLUICE_FRAMEWORK_TESTING_XORSHIFT_H_
#define SLUICE_FRAMEWORK_TESTING_XORSHIFT_H_

#include <cstddef>
#include <cstdint>

namespace sluice {

class Xorshift {
 public:
  explicit Xorshift(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15ull + 0x1234567ull) {
    for (int n = 0; n < 4; ++n) Next();
  }
  uint64_t Next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_ >> 11;
  }
  int32_t Below(size_t n) { return static_cast<int32_t>(Next() % n); }

 private:
  uint64_t state_;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TESTING_XORSHIFT_H_
