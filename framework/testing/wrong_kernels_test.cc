// The emulation finds every one of them; compute-sanitizer is asked by ci/gpu.
#include "framework/testing/wrong_kernels.h"

#include <set>

#include "framework/testing/cuda_order.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::IsEmpty;
using ::testing::Not;

TEST(WrongKernelsTest, EveryOneIsFoundAndNothingInTheOneThatIsRight) {
  for (const WrongKernel& fault : WrongKernels()) {
    for (const uint64_t seed : {1, 2, 3}) {
      BeginCudaOrder(seed, /*checks=*/true);
      const absl::Status ran = RunWrongKernel(fault.name);
      if (fault.tool == "all") {
        EXPECT_TRUE(ran.ok()) << ran;
        EXPECT_THAT(TakeCudaErrors(), IsEmpty());
      } else {
        EXPECT_THAT(TakeCudaErrors(), Not(IsEmpty())) << fault.name << ", seed " << seed;
      }
    }
  }
  BeginCudaOrder(1, /*checks=*/true);
}

TEST(WrongKernelsTest, EachToolHasTwo) {
  std::multiset<std::string> tools;
  for (const WrongKernel& fault : WrongKernels()) tools.insert(fault.tool);
  EXPECT_EQ(tools.count("all"), 1u);
  for (const char* tool : {"memcheck", "racecheck", "initcheck", "synccheck"}) {
    EXPECT_GE(tools.count(tool), 2u) << tool;
  }
}

TEST(WrongKernelsTest, OneThatThereIsNotIsRefused) {
  EXPECT_EQ(RunWrongKernel("typo").code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace sluice
