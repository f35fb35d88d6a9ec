#include "framework/tensor/shard.h"

#include <cmath>
#include <limits>

#include "gtest/gtest.h"

namespace sluice {
namespace {

TEST(Reduction, IdentityChangesNoBit) {
  const double values[] = {0.0,
                           -0.0,
                           1.5,
                           -3e300,
                           std::numeric_limits<double>::infinity(),
                           -std::numeric_limits<double>::infinity()};
  for (Reduction reduction : {Reduction::kSum, Reduction::kMax, Reduction::kMin}) {
    for (double value : values) {
      for (double got : {Reduce(reduction, value, IdentityOf(reduction)),
                         Reduce(reduction, IdentityOf(reduction), value)}) {
        EXPECT_EQ(got, value);
        EXPECT_EQ(std::signbit(got), std::signbit(value));
      }
    }
  }
}

TEST(Reduction, NaNWins) {
  const double nan = std::nan("");
  for (Reduction reduction : {Reduction::kSum, Reduction::kMax, Reduction::kMin}) {
    EXPECT_TRUE(std::isnan(Reduce(reduction, nan, 1)));
    EXPECT_TRUE(std::isnan(Reduce(reduction, 1, nan)));
  }
  EXPECT_EQ(Reduce(Reduction::kMax, 1, 2), 2);
  EXPECT_EQ(Reduce(Reduction::kMin, 1, 2), 1);
  EXPECT_EQ(Reduce(Reduction::kSum, 1, 2), 3);
  EXPECT_EQ(ReductionName(Reduction::kMin), "min");
}

TEST(Shard, BoxMovesWithTheMicroBatch) {
  Shard shard = Shard::Whole(DType::kF32, {8, 6});
  EXPECT_EQ(shard.ToString(), "f32[8,6]");
  EXPECT_EQ(shard.BoxAt(3), WholeBox({8, 6}));
  EXPECT_EQ(shard.NumBytes(), 192);
  shard.local = {2, 6};
  shard.offset = {4, 0};
  shard.stride_per_micro = {2, 0};
  shard.partial = Reduction::kSum;
  EXPECT_EQ(shard.BoxAt(1), (Box{{6, 8}, {0, 6}}));
  EXPECT_EQ(shard.ToString(), "f32[2,6] of [8,6] at [4,0] owes sum");
  EXPECT_FALSE(shard == Shard::Whole(DType::kF32, {8, 6}));
}

}  // namespace
}  // namespace sluice
