// The emulation finds every one of them; compute-sanitizer is asked by ci/gpu.
#include "framework/testing/cuda_faults.h"

#include <set>

#include "framework/testing/cuda_order.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::IsEmpty;
using ::testing::Not;

TEST(CudaFaultsTest, EveryOneIsFoundAndNothingInTheOneThatIsRight) {
  for (const CudaFault& fault : CudaFaults()) {
    for (const uint64_t seed : {1, 2, 3}) {
      BeginCudaOrder(seed, /*checks=*/true);
      const absl::Status ran = RunCudaFault(fault.name);
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

TEST(CudaFaultsTest, EachToolHasTwo) {
  std::multiset<std::string> tools;
  for (const CudaFault& fault : CudaFaults()) tools.insert(fault.tool);
  EXPECT_EQ(tools.count("all"), 1u);
  for (const char* tool : {"memcheck", "racecheck", "initcheck", "synccheck"}) {
    EXPECT_GE(tools.count(tool), 2u) << tool;
  }
}

TEST(CudaFaultsTest, OneThatThereIsNotIsRefused) {
  EXPECT_EQ(RunCudaFault("typo").code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace sluice
