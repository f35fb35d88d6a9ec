// On the emulation, on GPUs, and on a machine that has the toolkit but no GPU.
#include "framework/tools/cuda_self_check.h"

#include "framework/device/cuda_device.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::StartsWith;

TEST(CudaSelfCheckTest, EveryCardRunsAKernelOrTheDriverSaysWhyThereIsNone) {
  const auto cards = CountCudaCards();
  if (!cards.ok()) {
    EXPECT_EQ(cards.status().code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(cards.status().message()),
                StartsWith("no CUDA device: the driver says: "));
    return;
  }
  ASSERT_GT(*cards, 0);
  for (int card = 0; card < *cards; ++card) {
    const absl::Status checked = CheckCudaCard(card);
    EXPECT_TRUE(checked.ok()) << checked;
  }
}

TEST(CudaSelfCheckTest, ACardThatIsNotThereIsAnError) { EXPECT_FALSE(CheckCudaCard(1000).ok()); }

}  // namespace
}  // namespace sluice
