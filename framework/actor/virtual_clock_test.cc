#include "framework/actor/virtual_clock.h"

#include <string>

#include "framework/plan/proof.h"
#include "framework/plan/text.h"
#include "framework/plan/validate.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

absl::StatusOr<ClockResult> Clocked(const plan::Program& program,
                                    const ClockOptions& options = {}) {
  const auto index = ProgramIndex::Build(program);
  EXPECT_TRUE(index.ok()) << index.status();
  return RunClock(*index, options);
}

TEST(VirtualClockTest, StreamsOverlapAndTokensWait) {
  const plan::Plan plan = *ParsePlan(R"(
    actor a on d0.compute x 2; x = feed(1) cost 10
    actor b on d1.compute x 2; log(x) cost 4
    reg x quota 2)");
  const auto run = Clocked(plan.programs(0));
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->makespan, 24);
  EXPECT_EQ(run->busy[0], 20);
  EXPECT_EQ(run->busy[1], 8);
  EXPECT_THAT(run->begin_time, testing::ElementsAre(0, 10, 10, 20));
  EXPECT_THAT(run->end_time, testing::ElementsAre(10, 20, 14, 24));
  EXPECT_LT(run->end_rank[0], run->begin_rank[2]);
  ClockOptions options;
  options.message_latency = 3;
  EXPECT_EQ(Clocked(plan.programs(0), options)->makespan, 27);
  options.message_latency = 0;
  options.steps = 9;
  EXPECT_EQ(Clocked(plan.programs(0), options)->step_nanoseconds, 20);
}

TEST(VirtualClockTest, AScriptGoesOnBeforeOthersAndPriorityBreaksTies) {
  const plan::Plan plan = *ParsePlan(R"(
    actor late on d0.compute priority 2
      f()
      g()
    actor early on d0.compute priority 1
      f()
      g())");
  const auto run = Clocked(plan.programs(0));
  ASSERT_TRUE(run.ok());
  ASSERT_EQ(run->entries[0].size(), 2u);
  EXPECT_EQ(run->entries[0][0].actor(), 1);
  EXPECT_EQ(run->entries[0][0].to(), 2);
  EXPECT_EQ(run->entries[0][1].actor(), 0);
}

TEST(VirtualClockTest, MembersOfACollectiveBeginAndEndTogether) {
  const plan::Plan plan = *ParsePlan(R"(
    actor p on d0.compute; x = f() cost 7
    actor a on d0.comm; s = sum(x) cost 5 collective 1
    actor b on d1.comm; t = sum() cost 3 collective 1)");
  const auto run = Clocked(plan.programs(0));
  ASSERT_TRUE(run.ok());
  EXPECT_THAT(run->begin_time, testing::ElementsAre(0, 7, 7));
  EXPECT_THAT(run->end_time, testing::ElementsAre(7, 12, 12));
}

TEST(VirtualClockTest, GroupsThatShareStreamsDoNotBlockEachOther) {
  plan::Plan plan = *ParsePlan(R"(
    actor a on d0.comm; f() collective 1
    actor b on d1.comm
      f() collective 1
      g() collective 2
    actor c on d2.comm
      g() collective 2
    actor e on d2.comm; h() cost 9)");
  const auto run = RecordOrder(plan.mutable_programs(0));
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(ValidateProgram(plan.programs(0)), absl::OkStatus());
  EXPECT_EQ(plan.programs(0).streams(2).order_size(), 2);
}

TEST(VirtualClockTest, ARecordedOrderIsLiveAndTakesAsLong) {
  plan::Plan plan = *ParsePlan(R"(
    actor feed on d0.host x 4; x = feed(1) cost 3
    actor F on d0.compute x 4; k = copy(x) cost 5
    actor B on d0.compute x 4; G += copy(k) cost 6
    actor U on d0.compute; w -= copy(G)
    reg k quota 2; reg w tokens 1; reg G every 4)");
  plan::Program* program = plan.mutable_programs(0);
  const int64_t before = Clocked(*program)->makespan;
  ASSERT_TRUE(RecordOrder(program).ok());
  EXPECT_EQ(program->streams(0).order_size(), 0);  // hosts take work as it comes
  EXPECT_GT(program->streams(1).order_size(), 0);
  EXPECT_EQ(ValidateProgram(*program), absl::OkStatus());
  EXPECT_EQ(Clocked(*program)->makespan, before);
  const auto index = ProgramIndex::Build(*program);
  Certificate certificate;
  EXPECT_EQ(ProveLive(*index, &certificate), absl::OkStatus());
  // The ranks of the run are a certificate too.
  EXPECT_EQ(CheckCertificate(*index, {Clocked(*program)->begin_rank}), absl::OkStatus());
}

TEST(VirtualClockTest, NamesTheCycleItIsStuckIn) {
  const plan::Plan plan = *ParsePlan(R"(
    actor a on d0.compute; x = f(y)
    actor b on d1.compute; y = g(x))");
  EXPECT_THAT(std::string(Clocked(plan.programs(0)).status().message()),
              testing::HasSubstr("actor \"a\", instruction 0 \"f\" waits for register \"y\""));
}

}  // namespace
}  // namespace sluice
