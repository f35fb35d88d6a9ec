#include "framework/testing/hand_plans.h"

#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/actor/virtual_clock.h"
#include "framework/plan/text.h"
#include "framework/plan/validate.h"
#include "framework/testing/interleaver.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

// Parses, records the orders, and proves each program.
plan::Plan Ready(const HandPlan& hand) {
  absl::StatusOr<plan::Plan> plan = ParsePlan(hand.text, hand.name);
  EXPECT_TRUE(plan.ok()) << plan.status();
  for (plan::Program& program : *plan->mutable_programs()) {
    const auto run = RecordOrder(&program);
    EXPECT_TRUE(run.ok()) << hand.name << ": " << run.status();
  }
  return *std::move(plan);
}

class HandPlanTest : public testing::TestWithParam<HandPlan> {};

// A thousand orders, and each computes what the plain loops do.
TEST_P(HandPlanTest, EveryOrderComputesTheSame) {
  const HandPlan& hand = GetParam();
  const plan::Plan plan = Ready(hand);
  const auto index = ProgramIndex::Build(plan.programs(0));
  ASSERT_TRUE(index.ok()) << index.status();
  EXPECT_EQ(ValidateProgram(*index), absl::OkStatus());
  Certificate certificate;
  ASSERT_EQ(ProveLive(*index, &certificate), absl::OkStatus());
  EXPECT_EQ(CheckCertificate(*index, certificate), absl::OkStatus());
  constexpr int kSteps = 3, kSeeds = 1000;
  const SymbolicOutcome reference = RunReference(*index, certificate, kSteps, hand.initial);
  ASSERT_EQ(reference.log, hand.expect(kSteps));
  std::set<uint64_t> orders;
  for (int seed = 0; seed < kSeeds; ++seed) {
    InterleaverOptions options;
    options.seed = seed;
    options.steps = kSteps;
    options.fifo = seed % 3 > 0;
    options.launch_ahead = seed % 2 == 1;
    options.initial = hand.initial;
    const auto run = RunInterleaved(*index, options);
    ASSERT_TRUE(run.ok()) << "seed " << seed << ": " << run.status();
    ASSERT_EQ(run->outcome.log, reference.log) << "seed " << seed;
    ASSERT_EQ(run->outcome.state, reference.state) << "seed " << seed;
    orders.insert(run->order);
  }
  RecordProperty("distinct_orders", static_cast<int>(orders.size()));
  EXPECT_GT(orders.size(), kSeeds / 2u) << "few distinct orders";
}

INSTANTIATE_TEST_SUITE_P(All, HandPlanTest, testing::ValuesIn(AllHandPlans()),
                         [](const auto& info) { return info.param.name; });

TEST(HandPlansTest, ProgramsShareVariablesAndTheLoopStaysWithinItsCredit) {
  const HandPlan hand = Programs();
  const plan::Plan plan = Ready(hand);
  int64_t ahead = 0;
  for (int seed = 0; seed < 1000; ++seed) {
    SymbolicState state = hand.initial;
    int64_t w = 3, v = 1;
    for (const auto& [program, steps] : {std::pair(0, 3), {1, 1}, {2, 1}, {0, 3}, {1, 2}, {2, 1}}) {
      const auto index = ProgramIndex::Build(plan.programs(program));
      ASSERT_TRUE(index.ok());
      InterleaverOptions options;
      options.seed = seed;
      options.steps = steps;
      options.initial = state;
      options.launch_ahead = seed % 2 == 1;
      options.ahead = "feed";
      options.behind = "fetch";
      const auto run = RunInterleaved(*index, options);
      ASSERT_TRUE(run.ok()) << run.status();
      std::vector<LogEntry> expected;
      const auto mod = [](int64_t x) {
        return (x % kSymbolicPrime + kSymbolicPrime) % kSymbolicPrime;
      };
      for (int64_t step = 0; program == 0 && step < steps; ++step) {
        const int64_t x = 7 + 3 * step, y = mod(mod(x * w) * v);
        expected.push_back({"fetch", step, 0, {y}});
        w = mod(w - x * y);
        ++v;
      }
      for (int64_t firing = 0; program == 1 && firing < 3 * steps; ++firing) {
        expected.push_back({"fetch", firing, 0, {mod((9 + 3 * firing) * w)}});
      }
      if (program == 2) expected.push_back({"stage", 0, 0, {w, v}});
      ASSERT_EQ(run->outcome.log, expected) << "seed " << seed << " program " << program;
      for (const auto& [name, value] : run->outcome.state) state[name] = value;
      if (program == 0) ahead = std::max(ahead, run->ahead);
    }
  }
  EXPECT_EQ(ahead, 2);
}

std::string ForwardsAndBackwards(const plan::Program& program, int stage) {
  std::string text;
  for (const plan::Stream& stream : program.streams()) {
    if (stream.kind() != plan::STREAM_COMPUTE || stream.device() != stage) continue;
    for (const plan::ScheduleEntry& entry : stream.order()) {
      const std::string& name = program.actors(entry.actor()).name();
      if (entry.from() == 0 && name[0] != 'U')
        absl::StrAppend(&text, name.substr(0, 1), entry.firing(), " ");
    }
  }
  return text;
}

int PeakInFlight(const std::string& order) {
  int now = 0, peak = 0;
  for (char c : order) {
    if (c == 'F') peak = std::max(peak, ++now);
    if (c == 'B') --now;
  }
  return peak;
}

TEST(PipelineTest, SavedActivationQuotasGiveOneForwardOneBackward) {
  const plan::Plan plan = Ready(Pipeline({}));
  const char* const kExpected[] = {
      "F0 F1 F2 F3 B0 F4 B1 F5 B2 F6 B3 F7 B4 B5 B6 B7 ",
      "F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 F6 B4 F7 B5 B6 B7 ",
      "F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 F6 B5 F7 B6 B7 ",
      "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7 ",
  };
  for (int s = 0; s < 4; ++s) {
    const std::string order = ForwardsAndBackwards(plan.programs(0), s);
    EXPECT_EQ(order, kExpected[s]) << "stage " << s;
    EXPECT_EQ(PeakInFlight(order), 4 - s);
  }
}

TEST(PipelineTest, FullStashQuotasGiveAllForwardsFirst) {
  PipelineOptions options;
  options.saved = [](int) { return 8; };
  const plan::Plan plan = Ready(Pipeline(options));
  EXPECT_EQ(ForwardsAndBackwards(plan.programs(0), 0),
            "F0 F1 F2 F3 F4 F5 F6 F7 B0 B1 B2 B3 B4 B5 B6 B7 ");
}

double StepTime(const HandPlan& hand) {
  const plan::Plan plan = Ready(hand);
  const auto index = ProgramIndex::Build(plan.programs(0));
  EXPECT_TRUE(index.ok());
  const auto run = RunClock(*index);
  EXPECT_TRUE(run.ok()) << run.status();
  return static_cast<double>(run->makespan);
}

TEST(PipelineTest, TakesLittleMoreThanItsBubble) {
  const double ideal = 8 * 30.0 * (8 + 3) / 8;
  PipelineOptions options;
  options.transfer = 0;
  options.update = 0;
  EXPECT_LE(StepTime(Pipeline(options)), 1.02 * ideal);
  options.transfer = 1;
  EXPECT_LE(StepTime(Pipeline(options)), 1.08 * ideal);
}

TEST(DataParallelTest, HidesMostOfItsReduction) {
  constexpr int kLayers = 6, kCost = 4;
  const double with = StepTime(DataParallel(kLayers, kCost));
  const double without = StepTime(DataParallel(kLayers, 0));
  EXPECT_LE(with - without, 0.5 * kLayers * kCost) << with << " against " << without;
}

TEST(GatheredWeightsTest, MoreSlotsPrefetchMore) {
  std::vector<int64_t> time;
  for (int slots : {1, 2, 3}) {
    const plan::Plan plan = Ready(GatheredWeights(3, slots));
    const auto index = ProgramIndex::Build(plan.programs(0));
    ASSERT_TRUE(index.ok());
    ClockOptions options;
    options.steps = 3;
    const auto run = RunClock(*index, options);
    ASSERT_TRUE(run.ok()) << run.status();
    time.push_back(run->makespan);
  }
  EXPECT_GT(time[0], time[1]);
  EXPECT_GE(time[1], time[2]);
}

}  // namespace
}  // namespace sluice
