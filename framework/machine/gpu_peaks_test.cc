#include "framework/machine/gpu_peaks.h"

#include "gtest/gtest.h"

namespace sluice {
namespace {

TEST(GpuPeaksTest, CardsAreKnownByTheDriversNames) {
  EXPECT_EQ(GpuPeaksOfCard("NVIDIA H100 80GB HBM3")->name, "h100");
  EXPECT_EQ(GpuPeaksOfCard("NVIDIA H200")->name, "h200");
  EXPECT_EQ(GpuPeaksOfCard("NVIDIA A100-SXM4-80GB")->name, "a100");
  // Other forms of a card have other memory and clocks.
  EXPECT_EQ(GpuPeaksOfCard("NVIDIA A100-SXM4-40GB")->memory_bytes, 1.555e12);
  EXPECT_EQ(GpuPeaksOfCard("NVIDIA H100 PCIe")->bf16_flops, 756e12);
  EXPECT_EQ(GpuPeaksOfCard("NVIDIA L4")->memory_bytes, 0.3e12);
  EXPECT_EQ(GpuPeaksOfCard("NVIDIA L40S")->f32_flops, 91.6e12);
  for (const char* other :
       {"NVIDIA H100 80GB HBM3 MIG 1g.10gb", "NVIDIA A10G", "NVIDIA of tomorrow"}) {
    EXPECT_FALSE(GpuPeaksOfCard(other).has_value()) << other;
    EXPECT_TRUE(IsUnknownCard(other)) << other;
  }
  EXPECT_FALSE(GpuPeaksOfCard("Emulated CUDA device").has_value());
  EXPECT_FALSE(IsUnknownCard("Emulated CUDA device"));
  EXPECT_FALSE(IsUnknownCard("NVIDIA L4"));
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
