#include "framework/device/cpu_thread_team.h"

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace sluice {
namespace {

TEST(CpuThreadTeamTest, RunsEveryPieceOnce) {
  for (int threads : {1, 2, 3}) {
    CpuThreadTeam team(threads);
    EXPECT_EQ(team.threads(), threads);
    for (int64_t count : {0, 1, 2, 3, 64, 1000}) {
      std::vector<std::atomic<int>> runs(count);
      team.ForEach(count, [&](int64_t i) { runs[i].fetch_add(1, std::memory_order_relaxed); });
      for (const auto& times : runs) ASSERT_EQ(times.load(), 1) << threads << " threads";
    }
  }
}

TEST(CpuThreadTeamTest, ManyRoundsWithoutALostOrSharedPiece) {
  CpuThreadTeam team(3);
  std::vector<int64_t> values(7, 0);  // each written by whoever has the piece, without atomics
  for (int round = 0; round < 20000; ++round) {
    team.ForEach(7, [&](int64_t i) { values[i] += i; });
  }
  for (int64_t i = 0; i < 7; ++i) EXPECT_EQ(values[i], 20000 * i);
}

TEST(CpuThreadTeamTest, WakesThreadsThatSleep) {
  CpuThreadTeam team(2);
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    std::atomic<int> runs{0};
    team.ForEach(2, [&](int64_t) {
      runs.fetch_add(1);
      // Ends only if the other piece runs on another thread.
      while (runs.load() < 2) std::this_thread::yield();
    });
    EXPECT_EQ(runs.load(), 2);
  }
}

TEST(CpuThreadTeamTest, MorePiecesThanOneRoundHolds) {
  CpuThreadTeam team(2);
  std::atomic<int64_t> sum{0};
  const int64_t count = (int64_t{1} << 20) + 5;
  team.ForEach(count, [&](int64_t i) { sum.fetch_add(i, std::memory_order_relaxed); });
  EXPECT_EQ(sum.load(), count * (count - 1) / 2);
}

std::atomic<int> initialized{0};

TEST(CpuThreadTeamTest, InitializesItsOwnThreads) {
  {
    CpuThreadTeam team(3, [] { initialized.fetch_add(1); });
  }
  EXPECT_EQ(initialized.load(), 2);
}

}  // namespace
}  // namespace sluice
