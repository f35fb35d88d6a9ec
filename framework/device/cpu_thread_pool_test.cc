#include "framework/device/cpu_thread_pool.h"

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace sluice {
namespace {

TEST(CpuThreadPoolTest, RunsEveryPieceOnce) {
  for (int threads : {1, 2, 3}) {
    CpuThreadPool thread_pool(threads);
    EXPECT_EQ(thread_pool.threads(), threads);
    for (int64_t count : {0, 1, 2, 3, 64, 1000}) {
      std::vector<std::atomic<int>> runs(count);
      thread_pool.ForEach(count,
                          [&](int64_t i) { runs[i].fetch_add(1, std::memory_order_relaxed); });
      for (const auto& times : runs) ASSERT_EQ(times.load(), 1) << threads << " threads";
    }
  }
}

TEST(CpuThreadPoolTest, ManyRoundsWithoutALostOrSharedPiece) {
  CpuThreadPool thread_pool(3);
  std::vector<int64_t> values(7, 0);  // each written by whoever has the piece, without atomics
  for (int round = 0; round < 20000; ++round) {
    thread_pool.ForEach(7, [&](int64_t i) { values[i] += i; });
  }
  for (int64_t i = 0; i < 7; ++i) EXPECT_EQ(values[i], 20000 * i);
}

TEST(CpuThreadPoolTest, WakesThreadsThatSleep) {
  CpuThreadPool thread_pool(2);
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    std::atomic<int> runs{0};
    thread_pool.ForEach(2, [&](int64_t) {
      runs.fetch_add(1);
      // Ends only if the other piece runs on another thread.
      while (runs.load() < 2) std::this_thread::yield();
    });
    EXPECT_EQ(runs.load(), 2);
  }
}

TEST(CpuThreadPoolTest, MorePiecesThanOneRoundHolds) {
  CpuThreadPool thread_pool(2);
  std::atomic<int64_t> sum{0};
  const int64_t count = (int64_t{1} << 20) + 5;
  thread_pool.ForEach(count, [&](int64_t i) { sum.fetch_add(i, std::memory_order_relaxed); });
  EXPECT_EQ(sum.load(), count * (count - 1) / 2);
}

std::atomic<int> initialized{0};

TEST(CpuThreadPoolTest, InitializesItsOwnThreads) {
  {
    CpuThreadPool thread_pool(3, [] { initialized.fetch_add(1); });
  }
  EXPECT_EQ(initialized.load(), 2);
}

}  // namespace
}  // namespace sluice
