// Ranks that read each other's registers where they lie.
#include <memory>
#include <thread>
#include <vector>

#include "framework/comm/in_process_net.h"
#include "framework/runtime/runtime.h"
#include "framework/runtime/test_ranks.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

constexpr int64_t kSteps = 50;

// What the workers of rank 0 have run once all ranks have trained: the one that computes, the one
// for I/O.
std::vector<int64_t> InstructionsOfWorkers(const InProcessNetOptions& options_of_net,
                                           int64_t* read_in_place, int64_t* ahead) {
  InProcessNet net(kTestRanks, options_of_net);
  std::vector<int64_t> instructions;
  std::vector<std::thread> ranks;
  for (int32_t rank = 0; rank < kTestRanks; ++rank) {
    ranks.emplace_back([&, rank] {
      RuntimeOptions options;
      options.workers = options.threads_per_device = 1;
      options.prepare = PrepareNothing;
      options.net = net.endpoint(rank);
      const auto runtime = Runtime::Start(TestPlanOfRank(rank, plan::DEVICE_CPU), options);
      ASSERT_TRUE(runtime.ok()) << runtime.status();
      for (int64_t step = 0; step < kSteps; ++step) {
        ASSERT_EQ((*runtime)->Enqueue(0, {}, step), absl::OkStatus());
        ASSERT_EQ((*runtime)->Next().status(), absl::OkStatus());
      }
      for (int w = 0; rank == 0 && w < (*runtime)->workers(); ++w) {
        instructions.push_back((*runtime)->statistics(w).instructions);
      }
      EXPECT_EQ((*runtime)->Close(), absl::OkStatus());
    });
  }
  for (std::thread& rank : ranks) rank.join();
  *read_in_place = net.in_place();
  *ahead = net.ahead();
  return instructions;
}

// A step of two micro-batches begins, makes, adds and pulls twice.
TEST(InPlaceTest, APullThatCostsNothingRunsOnTheThreadThatReads) {
  using ::testing::ElementsAre;
  int64_t read_in_place = 0, ahead = 0;
  EXPECT_THAT(InstructionsOfWorkers({.ahead = false}, &read_in_place, &ahead),
              ElementsAre(6 * kSteps, 2 * kSteps));
  EXPECT_EQ(read_in_place, 0);
  EXPECT_EQ(ahead, 0);
  EXPECT_THAT(InstructionsOfWorkers({.ahead = true}, &read_in_place, &ahead),
              ElementsAre(8 * kSteps, 0));
  EXPECT_EQ(read_in_place, 0);
  EXPECT_GT(ahead, 0);
  EXPECT_THAT(InstructionsOfWorkers({.in_place = true}, &read_in_place, &ahead),
              ElementsAre(8 * kSteps, 0));
  EXPECT_EQ(read_in_place, 2 * 2 * kSteps);
  EXPECT_EQ(ahead, 0);
}

}  // namespace
}  // namespace sluice
