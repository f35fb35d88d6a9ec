// Division of numbers that are not negative by one that is fixed: a multiplication in place of a
// division, which costs as much as all else that an actor does with a token.
#ifndef SLUICE_FRAMEWORK_BASE_DIVISOR_H_
#define SLUICE_FRAMEWORK_BASE_DIVISOR_H_

#include <cstdint>
#include <limits>

namespace sluice {

class Divisor {
 public:
  // n of 1 or more.
  Divisor() : Divisor(1) {}
  explicit Divisor(int32_t n)
      : n_(n), reciprocal_(n > 1 ? std::numeric_limits<uint64_t>::max() / n + 1 : 0) {}

  int32_t value() const { return n_; }
  int64_t Quotient(int64_t x) const {
    if (n_ == 1) return x;
    // The reciprocal is too large by less than n / 2^64, which shows from x = 2^64 / n on.
    if (x >> 32 != 0) return x / n_;
    return static_cast<int64_t>(static_cast<Wide>(x) * reciprocal_ >> 64);
  }
  int32_t Remainder(int64_t x) const { return static_cast<int32_t>(x - Quotient(x) * n_); }

 private:
  __extension__ using Wide = unsigned __int128;

  int32_t n_;
  uint64_t reciprocal_;  // 2^64 / n, rounded up
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_BASE_DIVISOR_H_
