#include "framework/machine/kernel_times.h"

#include <array>
#include <string>
#include <vector>

#include "framework/machine/machine.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

KernelTimes Parsed(const std::string& name, const std::string& value) {
  const absl::StatusOr<KernelTimes> times = KernelTimes::Parse(name, value);
  EXPECT_TRUE(times.ok()) << times.status();
  return times.ok() ? *times : KernelTimes();
}

TEST(KernelTimesTest, LinearBetweenPointsAndPastTheLast) {
  const KernelTimes times = Parsed("gelu.1", "10,20,40:100,200,600");
  EXPECT_EQ(times.At({1}), 100);  // what it takes at least
  EXPECT_EQ(times.At({10}), 100);
  EXPECT_EQ(times.At({15}), 150);
  EXPECT_EQ(times.At({20}), 200);
  EXPECT_EQ(times.At({30}), 400);
  EXPECT_EQ(times.At({40}), 600);
  EXPECT_EQ(times.At({60}), 1000);
}

TEST(KernelTimesTest, AFallingTimeDoesNotFallOnPastTheLastPoint) {
  const KernelTimes times = Parsed("box.1", "64,128:900,500");
  EXPECT_EQ(times.At({96}), 700);
  EXPECT_EQ(times.At({1024}), 500);
}

TEST(KernelTimesTest, AProductIsExactWhereItsTimeIs) {
  // 3 * m * n * k at the corners of a grid is that everywhere on it, and beyond.
  KernelTimes times;
  times.kernel = "matmul";
  times.sizes = {{2, 8}, {4, 16}, {1, 64}};
  for (int64_t m : times.sizes[0]) {
    for (int64_t n : times.sizes[1]) {
      for (int64_t k : times.sizes[2]) times.nanoseconds.push_back(3 * m * n * k);
    }
  }
  EXPECT_EQ(times.At({5, 7, 11}), 3 * 5 * 7 * 11);
  EXPECT_EQ(times.At({80, 16, 100}), 3 * 80 * 16 * 100);
}

TEST(KernelTimesTest, TextFormKeepsEveryPoint) {
  const KernelTimes times = Parsed("matmul.2", "16,64/128/32,512:90,80,700,640");
  EXPECT_EQ(times.kernel, "matmul");
  EXPECT_EQ(times.threads, 2);
  const KernelTimes back = Parsed(times.Name(), times.ValueText());
  EXPECT_EQ(back.sizes, times.sizes);
  EXPECT_EQ(back.nanoseconds, times.nanoseconds);
}

TEST(KernelTimesTest, ErrorsSayWhatIsWrong) {
  for (const auto& [name, value, message] :
       std::vector<std::array<std::string, 3>>{{"matmul", "1:1", "a kernel and its threads"},
                                               {".1", "1:1", "a kernel and its threads"},
                                               {"matmul.0", "1:1", "a kernel and its threads"},
                                               {"matmul.1", "2,1:1,1", "ascending"},
                                               {"matmul.1", "1,2:1", "expected 2 times, got 1"},
                                               {"matmul.1", "1,2", "expected 2 times, got 0"},
                                               {"matmul.1", "1,x:1,1", "got \"x\""},
                                               {"matmul.1", "1:0", "got \"0\""}}) {
    const absl::StatusOr<KernelTimes> times = KernelTimes::Parse(name, value);
    ASSERT_FALSE(times.ok()) << name << "=" << value;
    EXPECT_THAT(std::string(times.status().message()), testing::HasSubstr(message));
  }
}

TEST(KernelTimesTest, AMachinePicksWhatItsDevicesHave) {
  const absl::StatusOr<Machine> machine = Machine::Parse(
      "cores=4 launch_nanoseconds=5 kernel.gelu.1=8,16:100,200\nkernel.gelu.4=8,16:30,60");
  ASSERT_TRUE(machine.ok()) << machine.status();
  EXPECT_EQ(Machine::Parse(machine->ToString())->ToString(), machine->ToString());
  // One device has a pool of four threads; two have two threads each, as good as one's times say.
  EXPECT_EQ(machine->ForDevices(1).KernelNanoseconds("gelu", {16}, 0, 0, false), 65);
  EXPECT_EQ(machine->ForDevices(2).KernelNanoseconds("gelu", {16}, 0, 0, false), 205);
  EXPECT_EQ(machine->ForDevices(8).KernelNanoseconds("gelu", {16}, 0, 0, false), 205);
  // Without times, or of another dtype, the rates say it; an empty shard costs its launch.
  const Machine one = machine->ForDevices(1);
  EXPECT_EQ(one.KernelNanoseconds("relu", {16}, 0, 64, false),
            one.ComputeNanoseconds(0, 64, false));
  EXPECT_EQ(one.KernelNanoseconds("gelu", {16}, 0, 64, true), one.ComputeNanoseconds(0, 64, true));
  EXPECT_EQ(one.KernelNanoseconds("gelu", {0}, 0, 0, false), 5);
}

TEST(KernelTimesTest, ColdOperandsCostMore) {
  const absl::StatusOr<Machine> machine = Machine::Parse(
      "cores=2 kernel.gelu.1=8,16:100,200 kernel.gelu.1.cold=8,16:150,300 kernel.add.1=8:10");
  ASSERT_TRUE(machine.ok()) << machine.status();
  EXPECT_EQ(Machine::Parse(machine->ToString())->ToString(), machine->ToString());
  const Machine one = machine->ForDevices(2);
  EXPECT_EQ(one.KernelNanoseconds("gelu", {12}, 0, 0, false), one.launch_nanoseconds + 150);
  EXPECT_EQ(one.ColdNanoseconds("gelu", {12}), 75);
  EXPECT_EQ(one.ColdNanoseconds("gelu", {0}), 0);
  EXPECT_EQ(one.ColdNanoseconds("add", {8}), 0);
}

}  // namespace
}  // namespace sluice
