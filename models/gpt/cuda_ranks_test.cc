// The tiny GPT on CUDA devices of several ranks of this process, each with a runtime, memory and
// streams of its own: every layout computes the bits of one rank that has all of the devices.
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "framework/base/status.h"
#include "framework/comm/in_process_net.h"
#include "framework/kernels/cuda/support.h"
#include "framework/testing/cuda_order.h"
#include "framework/testing/layouts.h"
#include "framework/testing/rank_parity.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/gpt/parity.h"

namespace sluice {
namespace {

ParityCase OnCards(const GptLayout& layout) {
  ParityCase of = GptParity(layout);
  of.mesh += " @cuda";
  of.cuda = &CudaSupport();
  return of;
}

RankRecords Train(const GptLayout& layout, int32_t ranks, uint64_t seed, bool checks) {
  BeginCudaOrder(seed, checks);
  const ParityCase of = OnCards(layout);
  const auto plans = PlansOfRanks(of, AdamWWithClip(), ranks);
  if (!plans.ok()) return RankRecords(ranks, plans.status());
  InProcessNetOptions delays;
  delays.seed = seed;
  delays.ordered = delays.in_place = seed % 2 == 0;
  InProcessNet net(ranks, delays);
  RankRecords records =
      TrainRanks(of, AdamWWithClip(), *plans, [&net](int32_t rank) { return net.endpoint(rank); });
  EXPECT_THAT(TakeCudaErrors(), testing::IsEmpty());
  return records;
}

class CudaRanksTest : public testing::TestWithParam<GptLayout> {};

// And every access of theirs is in order.
TEST_P(CudaRanksTest, ComputeTheBitsOfOne) {
  const RankRecords one = Train(GetParam(), 1, /*seed=*/1, /*checks=*/false);
  ASSERT_TRUE(one[0].ok()) << one[0].status();
  EXPECT_EQ(DifferenceOfRanks(*one[0], Train(GetParam(), 2, /*seed=*/2, /*checks=*/true)), "");
}

// Two ranks of a card each, along each axis.
std::vector<GptLayout> OfACardEach() {
  GptLayout pipe;
  pipe.mesh = "pipe=2";
  pipe.micro_batches = 4;
  return {{"data=2"}, {"model=2"}, pipe};
}

// Two ranks of two cards each.
std::vector<GptLayout> OfTwoCardsEach() {
  GptLayout pipe;
  pipe.mesh = "data=2 pipe=2";
  pipe.micro_batches = 2;
  return {{"data=2 model=2"}, pipe};
}

INSTANTIATE_TEST_SUITE_P(OfACardEach, CudaRanksTest, testing::ValuesIn(OfACardEach()),
                         LayoutName());
INSTANTIATE_TEST_SUITE_P(OfTwoCardsEach, CudaRanksTest, testing::ValuesIn(OfTwoCardsEach()),
                         LayoutName());

// Hosts' memory is pinned, and other ranks read it where it lies.
TEST(OfTwoCardsEachOverTcp, ComputeTheBitsOfOne) {
  BeginCudaOrder(/*seed=*/3, /*checks=*/false);
  EXPECT_EQ(DifferenceOverTcp(OnCards({"data=2 model=2"}), AdamWWithClip()), "");
  EXPECT_THAT(TakeCudaErrors(), testing::IsEmpty());
}

// What a card finds comes late; the step is over on no rank before.
TEST(CudaRanksErrorTest, AKernelsErrorEndsTheStepEverywhereWithThatStatus) {
  BeginCudaOrder(/*seed=*/1, /*checks=*/false);
  const ParityCase of = OnCards({"data=2"});
  const auto plans = PlansOfRanks(of, AdamWWithClip(), 2);
  ASSERT_TRUE(plans.ok()) << plans.status();
  InProcessNet net(2, {});
  std::vector<absl::Status> statuses(2);
  std::vector<std::thread> threads;
  for (int32_t rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      RuntimeOptions options;
      options.net = net.endpoint(rank);
      statuses[rank] = [&]() -> absl::Status {
        ASSIGN_OR_RETURN(const auto run,
                         ParityRun::Start(of, AdamWWithClip(), (*plans)[rank], options));
        RETURN_IF_ERROR(OneStep(run.get(), 5));
        return OneStep(run.get(), rank == 1 ? 300 : 5);
      }();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(std::string(statuses[0].message()),
              testing::MatchesRegex("rank 1, program train, step 1, device 1, .*embedding.*: "
                                    "expected ids in .*got 300.*"));
  EXPECT_EQ(statuses[0], statuses[1]);
}

}  // namespace
}  // namespace sluice
