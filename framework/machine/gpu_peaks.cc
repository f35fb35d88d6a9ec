#include "framework/machine/gpu_peaks.h"

#include <vector>

#include "absl/strings/match.h"

namespace sluice {
namespace {

struct Card {
  GpuPeaks peaks;
  std::vector<std::string> words;  // that the driver's name has, all of them
};

const std::vector<Card>& Cards() {
  static const auto* const cards = new std::vector<Card>{
      {{"h100", 67e12, 989e12, 3.35e12}, {"H100", "HBM3"}},
      {{"h200", 67e12, 989e12, 4.8e12}, {"H200"}},
      {{"a100", 19.5e12, 312e12, 2.039e12}, {"A100-SXM4-80GB"}},
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
  // Their memory, or their clocks, are others.
  for (const char* const other : {"NVL", "PCIe", "MIG"}) {
    if (absl::StrContains(card, other)) return std::nullopt;
  }
  for (const Card& known : Cards()) {
    bool all = true;
    for (const std::string& word : known.words) all = all && absl::StrContains(card, word);
    if (all) return known.peaks;
  }
  return std::nullopt;
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
