// The tiny GPT on CUDA devices of several ranks of this process, each with a runtime, memory and
// streams of its own: every layout computes the bits of one rank that has all of the devices, with
// sums made in the memory of hosts, and with those of NCCL.
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "framework/base/status.h"
#include "framework/comm/in_process_net.h"
#include "framework/kernels/cuda/collectives.h"
#include "framework/kernels/cuda/support.h"
#include "framework/testing/cuda_order.h"
#include "framework/testing/layouts.h"
#include "framework/testing/rank_parity.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/gpt/parity.h"

namespace sluice {
namespace {

// `collectives`: null for sums on hosts.
ParityCase OnCards(const GptLayout& layout, const CollectiveSupport* collectives = nullptr) {
  ParityCase of = GptParity(layout);
  of.mesh += " @cuda";
  of.cuda = &CudaSupport();
  of.collectives = collectives;
  return of;
}

RankRecords Train(const ParityCase& of, int32_t ranks, uint64_t seed, bool checks) {
  BeginCudaOrder(seed, checks);
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
  const ParityCase of = OnCards(GetParam());
  const RankRecords one = Train(of, 1, /*seed=*/1, /*checks=*/false);
  ASSERT_TRUE(one[0].ok()) << one[0].status();
  EXPECT_EQ(DifferenceOfRanks(*one[0], Train(of, 2, /*seed=*/2, /*checks=*/true)), "");
}

class NcclRanksTest : public testing::TestWithParam<GptLayout> {};

// NCCL's order is that of the devices of a group, whichever processes have them.
TEST_P(NcclRanksTest, ComputeTheBitsOfOne) {
  const ParityCase of = OnCards(GetParam(), &NcclSupport());
  const RankRecords one = Train(of, 1, /*seed=*/1, /*checks=*/false);
  ASSERT_TRUE(one[0].ok()) << one[0].status();
  EXPECT_EQ(DifferenceOfRanks(*one[0], Train(of, 2, /*seed=*/2, /*checks=*/true)), "");
}

// Two ranks of a card each. `Few` are those of the quick target.
INSTANTIATE_TEST_SUITE_P(Few, CudaRanksTest, testing::Values(GptLayout{"model=2"}), LayoutName());
INSTANTIATE_TEST_SUITE_P(Few, NcclRanksTest, testing::Values(GptLayout{"data=2"}), LayoutName());

// Along the other axes, and two ranks of two cards each.
std::vector<GptLayout> MoreLayouts() {
  GptLayout pipe;
  pipe.mesh = "pipe=2";
  pipe.micro_batches = 4;
  GptLayout of_two;
  of_two.mesh = "data=2 pipe=2";
  of_two.micro_batches = 2;
  return {{"data=2"}, pipe, {"data=2 model=2"}, of_two};
}

std::vector<GptLayout> MoreWithCollectives() {
  const std::vector<GptLayout> more = MoreLayouts();
  return {more[2], more[3]};
}

INSTANTIATE_TEST_SUITE_P(More, CudaRanksTest, testing::ValuesIn(MoreLayouts()), LayoutName());
INSTANTIATE_TEST_SUITE_P(More, NcclRanksTest, testing::ValuesIn(MoreWithCollectives()),
                         LayoutName());

// Four ranks: some groups are of neighbours, some of every other rank.
TEST(MoreNcclRanksTest, FourRanksComputeTheBitsOfOne) {
  const ParityCase of = OnCards({"data=2 model=2"}, &NcclSupport());
  const RankRecords one = Train(of, 1, /*seed=*/1, /*checks=*/false);
  ASSERT_TRUE(one[0].ok()) << one[0].status();
  EXPECT_EQ(DifferenceOfRanks(*one[0], Train(of, 4, /*seed=*/3, /*checks=*/true)), "");
}

// Hosts' memory is pinned, and other ranks read it where it lies.
TEST(MoreCudaRanksTest, RanksOverTcpComputeTheBitsOfOne) {
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

// What each of two ranks says of a run of some steps, and how long they took to say it once the
// first one had.
struct Ends {
  std::vector<absl::Status> statuses;
  std::chrono::steady_clock::duration apart;
};

Ends RunTwo(const std::vector<const CollectiveSupport*>& collectives) {
  BeginCudaOrder(/*seed=*/1, /*checks=*/false);
  const auto plans = PlansOfRanks(OnCards({"data=2"}, &NcclSupport()), AdamWWithClip(), 2);
  if (!plans.ok()) return {{plans.status(), plans.status()}, {}};
  InProcessNet net(2, {});
  Ends ends;
  ends.statuses.resize(2);
  std::vector<std::chrono::steady_clock::time_point> at(2);
  std::vector<std::thread> threads;
  for (int32_t rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      const ParityCase of = OnCards({"data=2"}, collectives[rank]);
      RuntimeOptions options;
      options.net = net.endpoint(rank);
      ends.statuses[rank] = [&]() -> absl::Status {
        ASSIGN_OR_RETURN(const auto run,
                         ParityRun::Start(of, AdamWWithClip(), (*plans)[rank], options));
        return run->Step(0).status();
      }();
      at[rank] = std::chrono::steady_clock::now();
    });
  }
  for (std::thread& thread : threads) thread.join();
  ends.apart = at[0] < at[1] ? at[1] - at[0] : at[0] - at[1];
  return ends;
}

class Failing final : public Kernel {
  absl::Status Launch(const KernelContext&, std::byte* const*, std::byte*) override {
    return absl::InternalError("this card has had enough");
  }
};

// Rank 0's card waits, inside of NCCL, for one of another process that will not come.
TEST(NcclRanksErrorTest, AMemberThatFailsEndsTheStepOfItsPeers) {
  const CollectiveSupport failing = {
      NcclSupport().make,
      [](const KernelSpec&, Communicators*, absl::Span<const int32_t>, int32_t)
          -> absl::StatusOr<std::unique_ptr<Kernel>> { return std::make_unique<Failing>(); }};
  const Ends ends = RunTwo({&NcclSupport(), &failing});
  EXPECT_THAT(std::string(ends.statuses[0].message()),
              testing::MatchesRegex("rank 1, .*this card has had enough"));
  EXPECT_EQ(ends.statuses[0], ends.statuses[1]);
  EXPECT_LT(ends.apart, std::chrono::seconds(5));
}

class Unwilling final : public Communicators {
 public:
  absl::StatusOr<std::string> Introduce() override { return std::string("id 0 00\n"); }
  absl::Status Connect(absl::string_view) override { return absl::OkStatus(); }
  void Abort() override {}
};

// Is told that a peer has gone as soon as all have met: before this rank begins its step.
class Forsaken final : public Communicators {
 public:
  explicit Forsaken(std::function<void(const absl::Status&)> fail) : fail_(std::move(fail)) {}
  absl::StatusOr<std::string> Introduce() override { return std::string("card 0 0000:00:00.0\n"); }
  absl::Status Connect(absl::string_view) override {
    fail_(absl::AbortedError("a peer has gone"));
    return absl::OkStatus();
  }
  void Abort() override {}

 private:
  const std::function<void(const absl::Status&)> fail_;
};

TEST(NcclRanksErrorTest, WhoHearsOfAFailureBeforeItsStepHearsWhy) {
  const auto make = [](const KernelSpec&, Communicators*, absl::Span<const int32_t>,
                       int32_t) -> absl::StatusOr<std::unique_ptr<Kernel>> {
    return std::make_unique<Failing>();
  };
  const CollectiveSupport forsaken = {
      [](std::vector<CommunicatorGroup>, std::function<void(const absl::Status&)> fail)
          -> absl::StatusOr<std::unique_ptr<Communicators>> {
        return std::make_unique<Forsaken>(std::move(fail));
      },
      make};
  const CollectiveSupport failing = {
      [](std::vector<CommunicatorGroup>, std::function<void(const absl::Status&)>)
          -> absl::StatusOr<std::unique_ptr<Communicators>> {
        return std::make_unique<Unwilling>();
      },
      make};
  const Ends ends = RunTwo({&forsaken, &failing});
  EXPECT_THAT(std::string(ends.statuses[0].message()),
              testing::MatchesRegex("rank 1, .*this card has had enough"));
  EXPECT_EQ(ends.statuses[0], ends.statuses[1]);
}

// And what a rank says of its cards is looked at by all others.
TEST(NcclRanksErrorTest, ARankThatSaysNothingOfItsCardsIsNamed) {
  const CollectiveSupport silent = {
      [](std::vector<CommunicatorGroup>, std::function<void(const absl::Status&)>)
          -> absl::StatusOr<std::unique_ptr<Communicators>> {
        return std::make_unique<Unwilling>();
      },
      [](const KernelSpec&, Communicators*, absl::Span<const int32_t>, int32_t)
          -> absl::StatusOr<std::unique_ptr<Kernel>> { return std::make_unique<Failing>(); }};
  const Ends ends = RunTwo({&NcclSupport(), &silent});
  EXPECT_EQ(std::string(ends.statuses[0].message()),
            "introductions of processes: expected the card of device 1, one of devices 0, 1; "
            "nobody has it");
  EXPECT_THAT(std::string(ends.statuses[1].message()),
              testing::HasSubstr("rank 0 has left: introductions of processes"));
}

}  // namespace
}  // namespace sluice
