#include "framework/data/sample_order.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
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
  order.count = 3;
  EXPECT_THAT(Take(order, 5, 5), ::testing::ElementsAre(0, 2, 4, 4, 4));
}

std::vector<int64_t> Epoch(uint64_t seed, int64_t epoch, int64_t num_samples) {
  std::vector<int64_t> samples(num_samples);
  for (int64_t i = 0; i < num_samples; ++i) {
    samples[i] = SampleAt({SampleOrder::kEpochs, seed}, epoch * num_samples + i, num_samples);
  }
  return samples;
}

// Runs will have seen these, too.
TEST(SampleOrderTest, TheOrderOfEpochsStands) {
  EXPECT_THAT(Epoch(1, 0, 10), ::testing::ElementsAre(0, 7, 6, 1, 4, 3, 5, 2, 8, 9));
  EXPECT_THAT(Take({SampleOrder::kEpochs, 7}, 4, 60000),
              ::testing::ElementsAre(6010, 5131, 26132, 25566));
  EXPECT_EQ(SampleAt({SampleOrder::kEpochs, 1}, int64_t{1} << 60, int64_t{1} << 61),
            1725356226618461950);
}

TEST(SampleOrderTest, AnEpochHasEverySampleOnce) {
  std::vector<int64_t> sizes = {1000, 1023, 1024, 1025, 50000, 65537};
  for (int64_t size = 1; size < 200; ++size) sizes.push_back(size);
  for (const int64_t size : sizes) {
    for (int64_t epoch : {0, 1, 2, 77}) {
      std::vector<int64_t> samples = Epoch(3, epoch, size);
      std::sort(samples.begin(), samples.end());
      for (int64_t i = 0; i < size; ++i) ASSERT_EQ(samples[i], i) << size << ", epoch " << epoch;
    }
  }
}

TEST(SampleOrderTest, EpochsAndSeedsDiffer) {
  std::set<std::vector<int64_t>> orders;
  for (uint64_t seed : {1, 2, 3}) {
    for (int64_t epoch = 0; epoch < 10; ++epoch) orders.insert(Epoch(seed, epoch, 100));
  }
  EXPECT_EQ(orders.size(), 30);
}

double ChiSquared(const std::vector<int64_t>& counts, double expected) {
  double sum = 0;
  for (const int64_t count : counts) {
    sum += (static_cast<double>(count) - expected) * (static_cast<double>(count) - expected);
  }
  return sum / expected;
}
// What four in ten thousand or so exceed, of so many degrees of freedom.
double MostOf(double freedom) { return freedom + 4 * std::sqrt(2 * freedom); }

TEST(SampleOrderTest, EverySampleStandsEverywhereAsOften) {
  constexpr int64_t kEpochs = 20000;
  for (const int64_t size : {2, 3, 5, 9, 17, 65}) {
    std::vector<int64_t> stood(size * size);  // a sample, a place
    for (int64_t epoch = 0; epoch < kEpochs; ++epoch) {
      const std::vector<int64_t> samples = Epoch(5, epoch, size);
      for (int64_t i = 0; i < size; ++i) ++stood[samples[i] * size + i];
    }
    // Rows and columns have known sums, which takes from the freedom and from the spread.
    const auto n = static_cast<double>(size);
    EXPECT_LT(ChiSquared(stood, kEpochs / n) * (n - 1) / n, MostOf((n - 1) * (n - 1)))
        << size << " samples";
  }
}

// What stands first says nothing of what follows it.
TEST(SampleOrderTest, NeighborsAreOfAnyPair) {
  constexpr int64_t kSize = 7, kEpochs = 8400;
  std::vector<int64_t> counts(kSize * kSize);
  for (int64_t epoch = 0; epoch < kEpochs; ++epoch) {
    const std::vector<int64_t> samples = Epoch(9, epoch, kSize);
    ++counts[samples[0] * kSize + samples[1]];
  }
  std::vector<int64_t> pairs;
  for (int64_t i = 0; i < kSize * kSize; ++i) {
    if (i / kSize != i % kSize) pairs.push_back(counts[i]);
  }
  constexpr double kPairs = kSize * (kSize - 1);
  EXPECT_LT(ChiSquared(pairs, kEpochs / kPairs), MostOf(kPairs - 1));
  // Neighbors in a file are far apart: as far as two random samples of so many, a third of them.
  const std::vector<int64_t> samples = Epoch(9, 0, 10000);
  double apart = 0;
  for (size_t i = 1; i < samples.size(); ++i) {
    apart += static_cast<double>(std::abs(samples[i] - samples[i - 1]));
  }
  EXPECT_NEAR(apart / 9999, 3333, 100);
}

}  // namespace
}  // namespace sluice
