#include "framework/machine/gpu_peaks.h"

#include "gtest/gtest.h"

namespace sluice {
namespace {

TEST(GpuPeaksTest, CardsAreKnownByTheDriversNames) {
  EXPECT_EQ(GpuPeaksOfCard("NVIDIA H100 80GB HBM3")->name, "h100");
  EXPECT_EQ(GpuPeaksOfCard("NVIDIA H200")->name, "h200");
  EXPECT_EQ(GpuPeaksOfCard("NVIDIA A100-SXM4-80GB")->name, "a100");
  for (const char* other :
       {"NVIDIA H100 PCIe", "NVIDIA H200 NVL", "NVIDIA A100-SXM4-40GB", "NVIDIA L4",
        "NVIDIA H100 80GB HBM3 MIG 1g.10gb", "Emulated CUDA device"}) {
    EXPECT_FALSE(GpuPeaksOfCard(other).has_value()) << other;
  }
}

TEST(GpuPeaksTest, PeaksAreTheFiguresOfAMachineThatHasNone) {
  Machine machine = Machine::Cpu();
  machine.link(LinkKind::kHost).bytes_per_second = 7e9;
  EXPECT_TRUE(HasDefaultFigures(machine));
  SetFigures(*GpuPeaksOf("h200"), &machine);
  EXPECT_EQ(machine.flops_per_second, 67e12);
  EXPECT_EQ(machine.bf16_flops_per_second, 989e12);
  EXPECT_EQ(machine.memory_bytes_per_second, 4.8e12);
  EXPECT_EQ(machine.link(LinkKind::kHost).bytes_per_second, 7e9);
  EXPECT_FALSE(HasDefaultFigures(machine));
}

}  // namespace
}  // namespace sluice
