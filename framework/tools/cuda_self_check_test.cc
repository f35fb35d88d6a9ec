// On the emulation, on GPUs, and on a machine that has the toolkit but no GPU.
#include "framework/tools/cuda_self_check.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::StartsWith;

TEST(CudaSelfCheckTest, EveryDeviceRunsAKernelOrTheDriverSaysWhyThereIsNone) {
  const auto count = CountCudaDevices();
  if (!count.ok()) {
    EXPECT_EQ(count.status().code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(count.status().message()), StartsWith("no CUDA device: driver says: "));
    return;
  }
  ASSERT_GT(*count, 0);
  for (int device = 0; device < *count; ++device) {
    EXPECT_TRUE(CheckCudaDevice(device).ok()) << CheckCudaDevice(device);
  }
}

TEST(CudaSelfCheckTest, ADeviceThatIsNotThereIsAnError) {
  EXPECT_FALSE(CheckCudaDevice(1000).ok());
}

}  // namespace
}  // namespace sluice
