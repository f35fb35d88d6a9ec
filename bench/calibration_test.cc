#include "bench/calibration.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "framework/ops/all_ops.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

CalibrationOptions Quick() {
  CalibrationOptions options;
  options.hot_bytes = 1 << 12;
  options.cold_bytes = 1 << 16;
  options.sample_nanoseconds = 1;
  options.passes = 1;
  options.grids.clear();
  return options;
}

// The compiler must ask for the time of a kernel by the sizes that the calibration gave it, and
// along each axis by that axis alone.
TEST(CalibrationTest, GridsSpeakTheWordsOfCosts) {
  for (const KernelGrid& grid : KernelGrids()) {
    std::vector<std::map<int64_t, int64_t>> asked(grid.axes.size());
    for (const std::vector<int64_t>& point : PointsOf(grid.axes)) {
      const auto sample = grid.sample(point);
      ASSERT_TRUE(sample.ok()) << grid.kernel << ": " << sample.status();
      ASSERT_EQ(sample->sizes.size(), point.size()) << grid.kernel;
      for (size_t d = 0; d < point.size(); ++d) {
        const auto at = asked[d].emplace(point[d], sample->sizes[d]).first;
        // A fold of several moves the bytes of all of them.
        if (grid.kernel == "fold_many") continue;
        EXPECT_EQ(at->second, sample->sizes[d]) << grid.kernel;
      }
    }
  }
}

// An op of neither would be priced at flat rates without anybody having meant it.
TEST(CalibrationTest, EveryOpIsTimedOrSaysWhyNot) {
  for (const OpDef* op : AllOps()) {
    const OpTiming& timing = op->timing;
    EXPECT_NE(timing.call != nullptr, !timing.flat_because.empty())
        << op->name << ": expected OpDef::timing to give calls or the reason for flat rates";
    EXPECT_EQ(timing.call != nullptr, !timing.axes.empty())
        << op->name << ": expected OpDef::timing to give axes with its calls";
  }
}

TEST(CalibrationTest, EveryKernelOfTheGridsRuns) {
  KernelTimer timer(Quick());
  for (KernelGrid grid : KernelGrids()) {
    for (std::vector<int64_t>& axis : grid.axes) axis.resize(1);
    for (int threads : {1, 2}) {
      const auto times = timer.Time(grid, threads, false);
      ASSERT_TRUE(times.ok()) << times.status();
      EXPECT_THAT(times->nanoseconds, testing::Each(testing::Gt(0))) << grid.kernel;
    }
  }
}

TEST(CalibrationTest, AMachineComesOutAndReadsBack) {
  CalibrationOptions options = Quick();
  options.cores = 2;
  for (const KernelGrid& grid : KernelGrids()) {
    if (grid.kernel == "gelu" || grid.kernel == "add") options.grids.push_back(grid);
  }
  for (KernelGrid& grid : options.grids) grid.axes[0].resize(3);
  const auto machine = Calibrate(options, {});
  ASSERT_TRUE(machine.ok()) << machine.status();
  EXPECT_EQ(machine->cores, 2);
  EXPECT_EQ(machine->kernels.size(), 8u);  // two kernels, one thread and two, hot and cold
  EXPECT_GT(machine->launch_nanoseconds, 0);
  EXPECT_GT(machine->link(LinkKind::kProcess).latency_nanoseconds, 0);
  EXPECT_GE(machine->wake_nanoseconds, 0);
  EXPECT_GT(machine->memory_bytes_per_second, 0);
  for (const KernelTimes& times : machine->kernels) {
    EXPECT_TRUE(std::is_sorted(times.nanoseconds.begin(), times.nanoseconds.end()));
    // 128 times the elements are not done in the same time.
    EXPECT_GT(times.nanoseconds.back(), 4 * times.nanoseconds.front()) << times.Name();
  }
  EXPECT_EQ(Machine::Parse(machine->ToString())->ToString(), machine->ToString());
}

TEST(CalibrationTest, TheFasterPassCountsAndTimesNeverFall) {
  KernelGrid grid = KernelGrids()[0];
  KernelTimes first, second;
  first.sizes = second.sizes = {{1, 2}, {1, 2, 3}};
  first.nanoseconds = {10, 90, 30, 20, 25, 50};
  second.nanoseconds = {11, 20, 31, 9, 26, 40};
  EXPECT_THAT(Merge(grid, {first, second}).nanoseconds,
              testing::ElementsAre(10, 20, 30, 10, 25, 40));
  grid.may_fall = 1;
  EXPECT_THAT(Merge(grid, {second}).nanoseconds, testing::ElementsAre(11, 20, 31, 11, 26, 40));
}

}  // namespace
}  // namespace sluice
