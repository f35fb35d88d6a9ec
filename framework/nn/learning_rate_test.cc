#include "framework/nn/learning_rate.h"

#include "gtest/gtest.h"

namespace sluice {
namespace {

TEST(LearningRateTest, WarmsUpThenFallsAsACosine) {
  const LearningRateSchedule schedule = {
      .peak = 2, .warmup = 4, .steps = 13, .floor_fraction = 0.1};
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 0), 0.5);
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 3), 2);
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 4), 2);
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 8), 1.1);  // half way between 4 and 12
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 12), 0.2);
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 1000), 0.2);
  for (int step = 5; step <= 12; ++step) {
    EXPECT_LT(LearningRate(schedule, step), LearningRate(schedule, step - 1));
  }
}

TEST(LearningRateTest, FloorOfOneIsConstant) {
  const LearningRateSchedule schedule = {
      .peak = 1e-3, .warmup = 0, .steps = 10, .floor_fraction = 1};
  for (int step = 0; step < 20; ++step) EXPECT_DOUBLE_EQ(LearningRate(schedule, step), 1e-3);
}

TEST(LearningRateTest, RunsShorterThanTheWarmUpStayFinite) {
  const LearningRateSchedule schedule = {.peak = 1, .warmup = 20, .steps = 1};
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 0), 0.05);
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 19), 1);
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 30), 0.1);
}

}  // namespace
}  // namespace sluice
