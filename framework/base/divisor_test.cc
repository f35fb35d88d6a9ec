#include "framework/base/divisor.h"

#include <vector>

#include "gtest/gtest.h"

namespace sluice {
namespace {

TEST(DivisorTest, DividesAsDivisionDoes) {
  std::vector<int32_t> divisors;
  for (int32_t n = 1; n <= 300; ++n) divisors.push_back(n);
  for (int shift = 8; shift < 31; ++shift) {
    for (int32_t off : {-1, 0, 1}) divisors.push_back((1 << shift) + off);
  }
  divisors.push_back(std::numeric_limits<int32_t>::max());
  for (const int32_t n : divisors) {
    const Divisor divisor(n);
    EXPECT_EQ(divisor.value(), n);
    std::vector<int64_t> dividends;
    for (int64_t x = 0; x < 1000; ++x) dividends.push_back(x);
    for (int64_t base : {int64_t{1} << 16, int64_t{1} << 31, int64_t{1} << 32, int64_t{1} << 62,
                         (int64_t{1} << 32) / n * n}) {
      for (int64_t off = -3; off <= 3; ++off) dividends.push_back(base + off < 0 ? 0 : base + off);
    }
    for (const int64_t x : dividends) {
      EXPECT_EQ(divisor.Quotient(x), x / n) << x << " / " << n;
      EXPECT_EQ(divisor.Remainder(x), x % n) << x << " % " << n;
    }
  }
}

}  // namespace
}  // namespace sluice
