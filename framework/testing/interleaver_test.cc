#include "framework/testing/interleaver.h"

#include <string>

#include "framework/actor/virtual_clock.h"
#include "framework/plan/text.h"
#include "framework/testing/hand_plans.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

plan::Program Recorded(const HandPlan& hand) {
  absl::StatusOr<plan::Plan> plan = ParsePlan(hand.text);
  EXPECT_TRUE(plan.ok()) << plan.status();
  EXPECT_TRUE(RecordOrder(plan->mutable_programs(0)).ok());
  return plan->programs(0);
}

// The number of the first seed that finds something wrong, or -1.
int FirstFound(const HandPlan& hand, PlantedFault fault, bool quota_too_many) {
  const plan::Program program = Recorded(hand);
  const auto index = ProgramIndex::Build(program);
  EXPECT_TRUE(index.ok());
  plan::Program wrong = program;
  for (plan::Register& r : *wrong.mutable_registers()) {
    if (quota_too_many && r.quota() > 1 && r.initial_tokens() == 0) r.set_quota(r.quota() + 1);
  }
  for (plan::Ring& ring : *wrong.mutable_rings()) ring.set_slots(ring.slots() + quota_too_many);
  const auto believed = ProgramIndex::Build(wrong);
  EXPECT_TRUE(believed.ok());
  for (int seed = 0; seed < 200; ++seed) {
    InterleaverOptions options;
    options.seed = seed;
    options.fault = fault;
    options.initial = hand.initial;
    if (quota_too_many) options.believed = &*believed;
    const auto run = RunInterleaved(*index, options);
    if (!run.ok() || run->outcome.log != hand.expect(3)) return seed;
  }
  return -1;
}

class PlantedFaultTest : public testing::TestWithParam<HandPlan> {};

TEST_P(PlantedFaultTest, IsFound) {
  const HandPlan& hand = GetParam();
  EXPECT_EQ(FirstFound(hand, PlantedFault::kNone, false), -1);
  EXPECT_GE(FirstFound(hand, PlantedFault::kAckBeforeRead, false), 0);
  EXPECT_GE(FirstFound(hand, PlantedFault::kMissingReq, false), 0);
  EXPECT_GE(FirstFound(hand, PlantedFault::kEarlyUpdate, false), 0);
  EXPECT_GE(FirstFound(hand, PlantedFault::kNone, true), 0);
}

INSTANTIATE_TEST_SUITE_P(All, PlantedFaultTest, testing::ValuesIn(AllHandPlans()),
                         [](const auto& info) { return info.param.name; });

// Not only by counting: the update itself is seen to overwrite what is still to be read.
TEST(InterleaverTest, AnEarlyUpdateIsSeenInTheBytes) {
  const absl::StatusOr<plan::Plan> plan = ParsePlan(R"(
    actor near on d0.host; log(w)
    actor far on d1.host; log(w)
    actor update on d0.compute; w += copy(1)
    reg w tokens 1)");
  const auto index = ProgramIndex::Build(plan->programs(0));
  int hazards = 0;
  for (int seed = 0; seed < 200; ++seed) {
    InterleaverOptions options;
    options.seed = seed;
    options.count_credits = false;
    EXPECT_EQ(RunInterleaved(*index, options).status(), absl::OkStatus());
    options.fault = PlantedFault::kEarlyUpdate;
    const auto run = RunInterleaved(*index, options);
    if (run.ok()) continue;
    hazards += run.status().message().find("hazard: actor \"update\"") != std::string::npos;
  }
  EXPECT_GT(hazards, 20);
}

TEST(InterleaverTest, SaysWhatWentWrong) {
  const absl::StatusOr<plan::Plan> plan = ParsePlan(R"(
    actor a on d0.compute; x = f(y)
    actor b on d1.compute; y = g(x))");
  const auto index = ProgramIndex::Build(plan->programs(0));
  const auto run = RunInterleaved(*index, {});
  EXPECT_EQ(run.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(run.status().message()), testing::HasSubstr("stuck before actor \"a\""));
}

// Collectives crossed on two streams: the proof would refuse them, and no order gets through.
TEST(InterleaverTest, CrossedCollectivesNeverFinish) {
  const absl::StatusOr<plan::Plan> plan = ParsePlan(R"(
    actor a on d0.comm
      s = sum() collective 1
      t = sum() collective 2
    actor b on d1.comm
      u = sum() collective 2
      v = sum() collective 1)");
  const auto index = ProgramIndex::Build(plan->programs(0));
  for (int seed = 0; seed < 100; ++seed) {
    InterleaverOptions options;
    options.seed = seed;
    options.launch_ahead = seed % 2 == 1;
    EXPECT_FALSE(RunInterleaved(*index, options).ok());
  }
}

}  // namespace
}  // namespace sluice
