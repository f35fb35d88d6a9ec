#include "bench/limits.h"

#include <cstdint>
#include <vector>

#include "framework/device/cpu_thread_pool.h"
#include "framework/kernels/cpu/library_call.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

constexpr int64_t kRows = 4096, kWidth = 16;

// A pass that skips rows would be a limit that no kernel reaches.
TEST(LimitsTest, APassOverTablesLooksAtEveryRowThatIsNamed) {
  CpuThreadPool thread_pool(2, InitKernelThread);
  std::vector<float> first(kRows * kWidth, 1), second(kRows * kWidth, 1);
  TablePass pass;
  pass.tables = {first.data(), second.data()};
  pass.width = kWidth;
  for (int turn = 0; turn < 2; ++turn) {
    std::vector<int32_t>& ids = pass.ids.emplace_back();
    for (int64_t row = turn; row < kRows; row += 4) ids.push_back(static_cast<int32_t>(row));
  }
  EXPECT_GT(MeasureTablePass(&thread_pool, pass), 0);
  EXPECT_EQ(first, std::vector<float>(kRows * kWidth, 1)) << "a pass that reads has written";
  pass.writes = true;
  EXPECT_GT(MeasureTablePass(&thread_pool, pass), 0);
  for (int64_t i = 0; i < kRows * kWidth; ++i) {
    const bool named = i / kWidth % 4 < 2;
    ASSERT_EQ(first[i] != 1, named) << "element " << i;
    ASSERT_EQ(second[i] != 1, named) << "element " << i;
  }
}

TEST(LimitsTest, BandwidthIsReadBetweenItsPoints) {
  Limits limits;
  limits.bandwidth = {{1 << 10, 100, 50, 40, 30}, {1 << 20, 25, 20, 10, 6}};
  EXPECT_DOUBLE_EQ(limits.At(1).read, 100);
  EXPECT_DOUBLE_EQ(limits.At(1 << 15).read, 50);  // halfway, by logarithms of both
  EXPECT_DOUBLE_EQ(limits.At(1 << 30).read, 25);
  // All loads, a third stores, and half of the bytes stored in place.
  EXPECT_DOUBLE_EQ(limits.BytesPerSecond(1 << 20, 300, 0, 0), 25);
  EXPECT_DOUBLE_EQ(limits.BytesPerSecond(1 << 20, 200, 100, 0), 20);
  EXPECT_DOUBLE_EQ(limits.BytesPerSecond(1 << 20, 150, 150, 150), 6);
}

}  // namespace
}  // namespace sluice
