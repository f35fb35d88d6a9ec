#include "framework/data/sample_order.h"

#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

std::vector<int64_t> Take(const SampleOrder& order, int64_t count, int64_t num_samples) {
  std::vector<int64_t> samples;
  for (int64_t i = 0; i < count; ++i) samples.push_back(SampleAt(order, i, num_samples));
  return samples;
}

// Runs of every earlier revision saw these: checkpoints and recorded losses rest on them.
TEST(SampleOrderTest, TheOrderOfEarlierRunsStands) {
  EXPECT_THAT(Take({SampleOrder::kRandom, 1}, 6, 1000000),
              ::testing::ElementsAre(209891, 833044, 439318, 221742, 907430, 946146));
  EXPECT_THAT(Take({SampleOrder::kRandom, 7}, 3, 199936),
              ::testing::ElementsAre(21774, 82316, 179232));
}

TEST(SampleOrderTest, RandomReachesAllAndDependsOnTheSeed) {
  const std::vector<int64_t> some = Take({SampleOrder::kRandom, 1}, 100, 4);
  EXPECT_THAT(std::set<int64_t>(some.begin(), some.end()), ::testing::ElementsAre(0, 1, 2, 3));
  EXPECT_NE(Take({SampleOrder::kRandom, 2}, 100, 4), some);
}

TEST(SampleOrderTest, SpreadGoesFromTheFirstToTheLast) {
  SampleOrder order = {SampleOrder::kSpread, 0, 4};
  EXPECT_THAT(Take(order, 4, 100), ::testing::ElementsAre(0, 33, 66, 99));
  EXPECT_THAT(Take(order, 4, 2), ::testing::ElementsAre(0, 0, 0, 1));
  order.count = 1;
  EXPECT_THAT(Take(order, 1, 100), ::testing::ElementsAre(0));
  order.count = 100;
  EXPECT_EQ(Take(order, 100, 100)[57], 57);
}

}  // namespace
}  // namespace sluice
