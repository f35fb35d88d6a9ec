// What data sheets promise of cards: the limits that predicted and measured times stand beside.
#ifndef SLUICE_BENCH_GPU_PEAKS_H_
#define SLUICE_BENCH_GPU_PEAKS_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace sluice {

// A second: operations without tensor cores in f32, with them in bf16 (dense), bytes of memory.
struct GpuPeaks {
  std::string name;  // "h100"
  double f32_flops = 0, bf16_flops = 0, memory_bytes = 0;
};

// By our name, "h100", "h200" or "a100", all as SXM modules of 80 GB, of H200 141.
std::optional<GpuPeaks> GpuPeaksOf(absl::string_view name);
// By the name that a driver gives, "NVIDIA H100 80GB HBM3". None: of a card with other figures,
// like the PCIe forms, or one that nobody has looked up.
std::optional<GpuPeaks> GpuPeaksOfCard(absl::string_view card);

}  // namespace sluice

#endif  // SLUICE_BENCH_GPU_PEAKS_H_
