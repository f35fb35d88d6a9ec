#include "framework/machine/gpu_peaks.h"

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"

namespace sluice {
namespace {

constexpr absl::string_view kVendor = "NVIDIA ";  // begins the names that drivers give

struct Card {
  GpuPeaks peaks;
  const char* name;  // that the driver gives, behind "NVIDIA "
};

// From NVIDIA's data sheets: f32 without tensor cores, bf16 with them and without sparsity, memory.
// Of consumer cards bf16 is what they add up in f32. By the whole name, as other forms of a card,
// and parts of one (MIG), have other figures.
const std::vector<Card>& Cards() {
  static const auto* const cards = new std::vector<Card>{
      {{"h100", 67e12, 989e12, 3.35e12}, "H100 80GB HBM3"},
      {{"h200", 67e12, 989e12, 4.8e12}, "H200"},
      {{"a100", 19.5e12, 312e12, 2.039e12}, "A100-SXM4-80GB"},
      {{"a100_40gb", 19.5e12, 312e12, 1.555e12}, "A100-SXM4-40GB"},
      {{"a100_pcie", 19.5e12, 312e12, 1.935e12}, "A100 80GB PCIe"},
      {{"a100_pcie_40gb", 19.5e12, 312e12, 1.555e12}, "A100-PCIE-40GB"},
      {{"h100_pcie", 51e12, 756e12, 2.0e12}, "H100 PCIe"},
      {{"h100_nvl", 60e12, 835e12, 3.9e12}, "H100 NVL"},
      {{"h200_nvl", 60e12, 835e12, 4.8e12}, "H200 NVL"},
      {{"l40s", 91.6e12, 362e12, 0.864e12}, "L40S"},
      {{"l4", 30.3e12, 121e12, 0.3e12}, "L4"},
      {{"a10", 31.2e12, 125e12, 0.6e12}, "A10"},
      {{"a30", 10.3e12, 165e12, 0.933e12}, "A30"},
      {{"a40", 37.4e12, 149.7e12, 0.696e12}, "A40"},
      {{"rtx_3090", 35.6e12, 71e12, 0.936e12}, "GeForce RTX 3090"},
      {{"rtx_4090", 82.6e12, 165.2e12, 1.008e12}, "GeForce RTX 4090"},
  };
  return *cards;
}

}  // namespace

std::optional<GpuPeaks> GpuPeaksOf(absl::string_view name) {
  for (const Card& card : Cards()) {
    if (card.peaks.name == name) return card.peaks;
  }
  return std::nullopt;
}

std::optional<GpuPeaks> GpuPeaksOfCard(absl::string_view card) {
  if (!absl::ConsumePrefix(&card, kVendor)) return std::nullopt;
  for (const Card& known : Cards()) {
    if (card == known.name) return known.peaks;
  }
  return std::nullopt;
}

bool IsUnknownCard(absl::string_view card) {
  return absl::StartsWith(card, kVendor) && !GpuPeaksOfCard(card).has_value();
}

bool HasDefaultFigures(const Machine& machine) {
  const Machine cpu = Machine::Cpu();
  return machine.flops_per_second == cpu.flops_per_second &&
         machine.bf16_flops_per_second == cpu.bf16_flops_per_second &&
         machine.memory_bytes_per_second == cpu.memory_bytes_per_second && machine.kernels.empty();
}

void SetFigures(const GpuPeaks& peaks, Machine* machine) {
  machine->flops_per_second = peaks.f32_flops;
  machine->bf16_flops_per_second = peaks.bf16_flops;
  machine->memory_bytes_per_second = peaks.memory_bytes;
}

}  // namespace sluice
