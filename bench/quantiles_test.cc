#include "bench/quantiles.h"

#include "gtest/gtest.h"

namespace sluice {
namespace {

TEST(QuantilesTest, MedianIsTheMiddleOrTheMeanOfTwo) {
  EXPECT_EQ(Median({7}), 7);
  EXPECT_EQ(Median({9, 1}), 5);
  EXPECT_EQ(Median({9, 1, 2}), 2);
  EXPECT_EQ(Median({4, 9, 1, 2}), 3);
}

TEST(QuantilesTest, AQuarterIsBelowTheLowerQuartile) {
  EXPECT_EQ(LowerQuartile({7}), 7);
  EXPECT_EQ(LowerQuartile({9, 1, 2}), 1);
  EXPECT_EQ(LowerQuartile({5, 9, 1, 2}), 2);
  EXPECT_EQ(LowerQuartile({8, 7, 6, 5, 4, 3, 2, 1}), 3);
}

}  // namespace
}  // namespace sluice
