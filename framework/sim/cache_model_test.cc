#include "framework/sim/cache_model.h"

#include "gtest/gtest.h"

namespace sluice {
namespace {

constexpr int64_t kBlock = CacheModel::kBlock;

TEST(CacheModelTest, HoldsWhatWasTouchedLast) {
  CacheModel cache(3 * kBlock);
  EXPECT_EQ(cache.Touch(0, 0, 2 * kBlock), 2 * kBlock);
  EXPECT_EQ(cache.Touch(0, 0, 2 * kBlock), 0);
  EXPECT_EQ(cache.Touch(1, 0, kBlock), kBlock);  // another space
  EXPECT_EQ(cache.Touch(0, 0, kBlock), 0);
  EXPECT_EQ(cache.Touch(1, kBlock, kBlock), kBlock);  // block 1 of space 0 goes
  EXPECT_EQ(cache.Touch(0, 0, kBlock), 0);
  EXPECT_EQ(cache.Touch(0, kBlock, kBlock), kBlock);
}

TEST(CacheModelTest, CountsBytesOfAPartOfABlock) {
  CacheModel cache(4 * kBlock);
  EXPECT_EQ(cache.Touch(0, kBlock - 10, 20), 20);
  EXPECT_EQ(cache.Touch(0, 0, 2 * kBlock), 0);
  EXPECT_EQ(cache.Touch(0, 5, 0), 0);
}

TEST(CacheModelTest, ForgetsWhatAnotherWrote) {
  CacheModel cache(4 * kBlock);
  cache.Touch(0, 0, 2 * kBlock);
  cache.Forget(0, kBlock, 1);
  EXPECT_EQ(cache.Touch(0, 0, 2 * kBlock), kBlock);
}

TEST(CacheModelTest, MoreThanItHoldsIsNeverThere) {
  CacheModel cache(2 * kBlock);
  for (int round = 0; round < 3; ++round) EXPECT_EQ(cache.Touch(0, 0, 3 * kBlock), 3 * kBlock);
}

}  // namespace
}  // namespace sluice
