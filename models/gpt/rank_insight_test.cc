// What a user sees of ranks beside their results: whom they wait for.
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/comm/in_process_net.h"
#include "framework/testing/rank_parity.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/gpt/parity.h"

namespace sluice {
namespace {

constexpr int32_t kRanks = 2;

ParityCase AllAxes() {
  GptLayout layout;
  layout.mesh = "data=2 model=2 pipe=2";
  layout.micro_batches = 2;
  return GptParity(layout);
}

using OnRank = std::function<void(int32_t rank, ParityRun* run)>;

// Runs a function on two ranks at once; a session ends when it returns.
void OnRanks(const std::function<RuntimeOptions(int32_t rank)>& options, const OnRank& on_rank) {
  const auto plans = PlansOfRanks(AllAxes(), AdamWWithClip(), kRanks);
  ASSERT_TRUE(plans.ok()) << plans.status();
  InProcessNet net(kRanks, {});
  std::vector<std::thread> threads;
  for (int32_t rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      RuntimeOptions own = options(rank);
      own.net = net.endpoint(rank);
      auto run = ParityRun::Start(AllAxes(), AdamWWithClip(), (*plans)[rank], own);
      ASSERT_TRUE(run.ok()) << run.status();
      on_rank(rank, run->get());
      EXPECT_EQ((*run)->session()->Close(), absl::OkStatus());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void Step(ParityRun* run, int64_t step) {
  const auto stepped = run->Step(step, /*batch=*/step);
  EXPECT_TRUE(stepped.ok()) << stepped.status();
}

// Of a rank that waits and of one that holds all up, in the middle of a step or between two.
class RankWaitsTest : public testing::Test {
 protected:
  static constexpr auto kLong = std::chrono::milliseconds(1500);

  // What both ranks log in two steps.
  static std::string Log(const std::function<void(int32_t rank)>& between, bool in_the_step) {
    testing::internal::CaptureStderr();
    const auto options = [](int32_t rank) {
      RuntimeOptions own;
      own.wait_limit = std::chrono::milliseconds(300);
      if (rank == 1) own.tamper = HoldUpOnce;
      return own;
    };
    OnRanks(options, [&](int32_t rank, ParityRun* run) {
      Step(run, 0);
      between(rank);
      if (rank == 1) hold_up_ = in_the_step;
      Step(run, 1);
    });
    return testing::internal::GetCapturedStderr();
  }

 private:
  static inline std::atomic<bool> hold_up_{false};
  static void HoldUpOnce(Message*) {
    if (hold_up_.exchange(false)) std::this_thread::sleep_for(kLong);
  }
};

TEST_F(RankWaitsTest, TheOneThatRunsForLongIsNamed) {
  const std::string log = Log([](int32_t) {}, /*in_the_step=*/true);
  const std::string process = absl::StrCat(", process ", getpid());
  EXPECT_THAT(log, testing::ContainsRegex(absl::StrCat(
                       "all wait for rank 1 at [^ ]*", process,
                       ", device [0-9]+ [a-z]+, which runs [^ ]+ .*, step 1, micro-batch")));
  EXPECT_THAT(
      log, testing::ContainsRegex(absl::StrCat("nothing has moved on rank 0 at [^ ]*", process)));
  EXPECT_THAT(log, testing::ContainsRegex("device [0-9]+ net: [^ ]+ .pull., step 1, .*waits for "
                                          "[^ ]+ of [^ ]+, owed by rank 1"));
  EXPECT_THAT(log, testing::ContainsRegex("goes on after [0-9.]+ s"));
}

TEST_F(RankWaitsTest, TheOneThatDoesSomethingElseIsNamed) {
  for (const int32_t busy : {0, 1}) {
    const std::string log = Log(
        [busy](int32_t rank) {
          if (rank == busy) std::this_thread::sleep_for(2 * kLong);
        },
        /*in_the_step=*/false);
    EXPECT_THAT(log, testing::ContainsRegex(absl::StrCat(
                         "all wait for rank ", busy,
                         " at [^ ]*, process [0-9]+, whose steps are through: it has begun 1 ")));
  }
}

}  // namespace
}  // namespace sluice
