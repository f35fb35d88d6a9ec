// The tiny GPT on several ranks whose devices have memory spaces of their own and run late
// (device/async.h): every layout computes the bits of CPUs of one rank, whatever streams and the
// net do first, and mistakes in what waits for what are found.
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "framework/comm/in_process_net.h"
#include "framework/testing/layouts.h"
#include "framework/testing/rank_parity.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/gpt/parity.h"

namespace sluice {
namespace {

GptLayout On(GptLayout layout, const std::string& kinds) {
  layout.mesh += " @" + kinds;
  return layout;
}

std::vector<plan::Plan> PlansOf(const GptLayout& layout, int32_t ranks) {
  auto plans = PlansOfRanks(GptParity(layout), AdamWWithClip(), ranks);
  EXPECT_TRUE(plans.ok()) << plans.status();
  return plans.ok() ? *std::move(plans) : std::vector<plan::Plan>(ranks);
}

RankRecords Train(const GptLayout& layout, const std::vector<plan::Plan>& plans, uint64_t seed,
                  AsyncFault fault = AsyncFault::kNone) {
  InProcessNetOptions delays;
  delays.seed = seed;
  delays.ordered = delays.in_place = seed % 2 == 0;
  InProcessNet net(static_cast<int32_t>(plans.size()), delays);
  RuntimeOptions options;
  options.async = {seed, fault};
  return TrainRanks(
      GptParity(layout), AdamWWithClip(), plans,
      [&net](int32_t rank) { return net.endpoint(rank); }, options);
}

class DeviceRanksTest : public testing::TestWithParam<GptLayout> {};

TEST_P(DeviceRanksTest, ComputeTheBitsOfOneRankOfCpus) {
  const RankRecords one = Train(GetParam(), PlansOf(GetParam(), 1), 1);
  ASSERT_TRUE(one[0].ok()) << one[0].status();
  const GptLayout layout = On(GetParam(), "async");
  for (const int32_t ranks : {2, 4}) {
    const std::vector<plan::Plan> plans = PlansOf(layout, ranks);
    for (uint64_t seed = 1; seed <= 2; ++seed) {
      EXPECT_EQ(DifferenceOfRanks(*one[0], Train(layout, plans, seed)), "")
          << ranks << " ranks, seed " << seed;
    }
  }
}

std::vector<GptLayout> Layouts() {
  GptLayout all, micro;
  all.mesh = "data=2 model=2 pipe=2";
  all.micro_batches = 4;
  micro.mesh = "pipe=4";
  micro.micro_batches = 4;
  return {{"data=4"}, {"model=4"}, micro, {"data=2 model=2"}, {"data=2 pipe=2"}, all};
}
INSTANTIATE_TEST_SUITE_P(Few, DeviceRanksTest, testing::ValuesIn(Layouts()), LayoutName());
INSTANTIATE_TEST_SUITE_P(All, DeviceRanksTest, testing::ValuesIn(ParityLayouts()), LayoutName());

TEST(DeviceRanksTest, StagesOfCpusBesideOthers) {
  GptLayout layout;
  layout.mesh = "data=2 pipe=2";
  layout.micro_batches = 4;
  const RankRecords one = Train(layout, PlansOf(layout, 1), 1);
  ASSERT_TRUE(one[0].ok()) << one[0].status();
  layout = On(layout, "cpu,async");
  for (const int32_t ranks : {2, 4}) {
    EXPECT_EQ(DifferenceOfRanks(*one[0], Train(layout, PlansOf(layout, ranks), 3)), "") << ranks;
  }
}

// Two ranks read what lies on each other's hosts in place.
TEST(DeviceRanksTest, OverTcpToo) {
  EXPECT_EQ(DifferenceOverTcp(GptParity(On({"data=2 model=2"}, "async")), AdamWWithClip()), "");
}

// Under seed after seed until a run fails or gives other bits: how many that took, or 0.
int SeedsToFind(const GptLayout& layout, AsyncFault fault) {
  const RankRecords one = Train(layout, PlansOf(layout, 1), 1);
  EXPECT_TRUE(one[0].ok()) << one[0].status();
  const std::vector<plan::Plan> plans = PlansOf(On(layout, "async"), 2);
  for (int seed = 1; seed <= 20 && one[0].ok(); ++seed) {
    const RankRecords got = Train(layout, plans, static_cast<uint64_t>(seed), fault);
    if (!DifferenceOfRanks(*one[0], got).empty()) return seed;
  }
  return 0;
}

// What hosts and other ranks are told has come, and a step's end, is too early then.
TEST(DeviceRanksFaultTest, ACopyThatIsSaidToBeOverTooEarly) {
  EXPECT_GT(SeedsToFind({"data=2"}, AsyncFault::kEarlyDone), 0);
}

TEST(DeviceRanksFaultTest, AFenceThatIsNotWaitedFor) {
  EXPECT_GT(SeedsToFind({"data=2"}, AsyncFault::kForgottenWait), 0);
}

}  // namespace
}  // namespace sluice
