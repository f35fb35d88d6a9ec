#include "framework/actor/worker_clock.h"

#include <string>

#include "framework/actor/virtual_clock.h"
#include "framework/plan/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

absl::StatusOr<WorkerClockResult> Clocked(const plan::Program& program,
                                          const WorkerClockOptions& options) {
  const auto index = ProgramIndex::Build(program);
  EXPECT_TRUE(index.ok()) << index.status();
  return RunWorkerClock(*index, options);
}

std::vector<int64_t> Begins(const WorkerClockResult& run, int32_t actor) {
  std::vector<int64_t> begins;
  for (const WorkerSpan& span : run.spans) {
    if (span.actor == actor) begins.push_back(span.begin);
  }
  return begins;
}

// Two devices that do the same, independently, and each a copy beside it.
constexpr char kTwins[] = R"(
    actor a0 on d0.compute; f() cost 10
    actor a1 on d1.compute; f() cost 10
    actor b0 on d0.comm; g() cost 3
    actor b1 on d1.comm; g() cost 3)";

TEST(WorkerClockTest, DevicesOfOneWorkerTakeTurnsAndThoseOfTwoDoNot) {
  const plan::Plan plan = *ParsePlan(kTwins);
  const auto shared = Clocked(plan.programs(0), {.workers = 1, .devices = 2, .steps = 1});
  ASSERT_TRUE(shared.ok()) << shared.status();
  // All that moves bytes goes first: 3 + 3 + 10 + 10.
  EXPECT_EQ(shared->step_nanoseconds, 26);
  EXPECT_THAT(shared->busy, testing::ElementsAre(26));
  EXPECT_THAT(Begins(*shared, 0), testing::ElementsAre(6));
  EXPECT_THAT(Begins(*shared, 1), testing::ElementsAre(16));
  EXPECT_THAT(Begins(*shared, 2), testing::ElementsAre(0));
  EXPECT_THAT(Begins(*shared, 3), testing::ElementsAre(3));
  const auto apart = Clocked(plan.programs(0), {.workers = 2, .devices = 2, .steps = 1});
  ASSERT_TRUE(apart.ok());
  EXPECT_EQ(apart->step_nanoseconds, 13);
  EXPECT_THAT(apart->busy, testing::ElementsAre(13, 13));
  // The clock that gives every stream a core of its own says 10.
  EXPECT_EQ(RunClock(*ProgramIndex::Build(plan.programs(0)))->makespan, 10);
}

TEST(WorkerClockTest, AMessageToAnotherWorkerTakesTimeAndWakesIt) {
  const plan::Plan plan = *ParsePlan(R"(
    actor a on d0.compute; x = f() cost 100
    actor b on d1.compute; g(x) cost 5)");
  WorkerClockOptions options = {.workers = 2, .devices = 2, .steps = 1};
  options.message_latency = 7;
  options.wake_latency = 40;
  options.spin = 1000;
  // The session's word, f, the message, g.
  EXPECT_EQ(Clocked(plan.programs(0), options)->step_nanoseconds, 7 + 100 + 7 + 5);
  options.spin = 50;  // by then the other sleeps
  EXPECT_EQ(Clocked(plan.programs(0), options)->step_nanoseconds, 7 + 100 + 7 + 40 + 5);
  options.workers = 1;  // no message
  EXPECT_EQ(Clocked(plan.programs(0), options)->step_nanoseconds, 7 + 100 + 5);
}

TEST(WorkerClockTest, WhatComesWhileAWorkerWakesDoesNotWaitForAnotherWake) {
  const plan::Plan plan = *ParsePlan(R"(
    actor a on d0.compute
      x = f() cost 100
      y = f() cost 10
    actor b on d1.compute; g(x) cost 1
    actor c on d1.compute; g(y) cost 5)");
  WorkerClockOptions options = {.workers = 2, .devices = 2, .steps = 1};
  options.message_latency = 7;
  options.wake_latency = 40;
  options.spin = 50;
  const auto run = Clocked(plan.programs(0), options);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_THAT(Begins(*run, 1), testing::ElementsAre(7 + 100 + 7 + 40));
  EXPECT_THAT(Begins(*run, 2), testing::ElementsAre(7 + 100 + 7 + 40 + 1));
}

TEST(WorkerClockTest, WhatCameFirstGoesFirstAndScriptsTakeTurns) {
  const plan::Plan plan = *ParsePlan(R"(
    actor a on d0.compute
      f() cost 4
      g() cost 4
    actor b on d1.compute
      f() cost 2
      g() cost 2)");
  const auto run = Clocked(plan.programs(0), {.workers = 1, .devices = 2, .steps = 1});
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_THAT(Begins(*run, 0), testing::ElementsAre(0, 6));
  EXPECT_THAT(Begins(*run, 1), testing::ElementsAre(4, 10));
}

TEST(WorkerClockTest, APipelineFillsAndDrains) {
  plan::Plan plan = *ParsePlan(R"(
    actor a on d0.compute x 4; x = f() cost 10
    actor b on d1.compute x 4; g(x) cost 10
    reg x quota 2)");
  ASSERT_TRUE(RecordOrder(plan.mutable_programs(0)).ok());
  const WorkerClockOptions once = {.workers = 2, .devices = 2, .steps = 1};
  EXPECT_EQ(Clocked(plan.programs(0), once)->step_nanoseconds, 50);
  // The next step's first firings begin while the last of this one end.
  const WorkerClockOptions often = {.workers = 2, .devices = 2, .steps = 9};
  EXPECT_EQ(Clocked(plan.programs(0), often)->step_nanoseconds, 40);
  const WorkerClockOptions shared = {.workers = 1, .devices = 2, .steps = 9};
  EXPECT_EQ(Clocked(plan.programs(0), shared)->step_nanoseconds, 80);
}

TEST(WorkerClockTest, TheSessionIsNoFurtherAheadThanItMay) {
  const plan::Plan plan = *ParsePlan(R"(
    actor a on d0.compute; f() cost 10
    actor b on d1.compute; g() cost 90)");
  WorkerClockOptions options = {.workers = 2, .devices = 2, .steps = 3};
  const auto run = Clocked(plan.programs(0), options);
  ASSERT_TRUE(run.ok());
  // Step 2 of the fast one waits until step 0 of the slow one has ended.
  EXPECT_THAT(Begins(*run, 0), testing::ElementsAre(0, 10, 90));
  options.steps_ahead = 1;
  EXPECT_THAT(Begins(*Clocked(plan.programs(0), options), 0), testing::ElementsAre(0, 90, 180));
}

TEST(WorkerClockTest, SaysTheSameEveryTimeAndRefusesWhatIsNotThere) {
  const plan::Plan plan = *ParsePlan(kTwins);
  const WorkerClockOptions options = {.workers = 2, .devices = 2, .steps = 5};
  EXPECT_EQ(Clocked(plan.programs(0), options)->spans, Clocked(plan.programs(0), options)->spans);
  EXPECT_FALSE(Clocked(plan.programs(0), {.workers = 2, .devices = 1}).ok());
  EXPECT_FALSE(Clocked(plan.programs(0), {.workers = 0, .devices = 2}).ok());
  const plan::Plan stuck = *ParsePlan(R"(
    actor a on d0.compute; x = f(y)
    actor b on d1.compute; y = g(x))");
  EXPECT_THAT(std::string(Clocked(stuck.programs(0), options).status().message()),
              testing::HasSubstr("actor \"a\", instruction 0 \"f\" waits for register \"y\""));
}

}  // namespace
}  // namespace sluice
