// What data sheets promise of GPUs: what plans for them are priced by where nobody has measured
// one, and the limits that predicted and measured times stand beside.
#ifndef SLUICE_FRAMEWORK_MACHINE_GPU_PEAKS_H_
#define SLUICE_FRAMEWORK_MACHINE_GPU_PEAKS_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "framework/machine/machine.h"

namespace sluice {

// A second: operations without tensor cores in f32, with them in bf16 (dense), bytes of memory.
struct GpuPeaks {
  std::string name;  // "h100"
  double f32_flops = 0, bf16_flops = 0, memory_bytes = 0;
};

// By our name, "h100", "h200" or "a100", all as SXM modules of 80 GB, of H200 141; others say their
// form, "h100_pcie".
std::optional<GpuPeaks> GpuPeaksOf(absl::string_view name);
// By the whole name that a driver gives, "NVIDIA H100 80GB HBM3". None of a card that nobody has
// looked up, and of a part of one.
std::optional<GpuPeaks> GpuPeaksOfCard(absl::string_view card);
// Whether it is a card whose peaks are not known here, and no emulation of one.
bool IsUnknownCard(absl::string_view card);
// Whether the compute figures are those of Machine::Cpu(), so that nobody has given any.
bool HasDefaultFigures(const Machine& machine);
// With the peaks as its compute figures; what else it has stays, links say.
void SetFigures(const GpuPeaks& peaks, Machine* machine);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_MACHINE_GPU_PEAKS_H_
