#include "framework/kernels/cpu/all_kernels.h"

#include "absl/strings/str_cat.h"
#include "framework/kernels/calls.h"

namespace sluice {

absl::Span<const KernelEntry> CpuKernels() {
  static const KernelEntry kernels[] = {
#define SLUICE_KERNEL(op, Name) {op, cpu::Prepare##Name},
#include "framework/kernels/cpu/kernel_list.inc"
#undef SLUICE_KERNEL
  };
  return kernels;
}

absl::StatusOr<std::unique_ptr<Kernel>> PrepareCpuKernel(const KernelSpec& spec) {
  if (spec.calls > 1) return PrepareEachCall(spec, PrepareCpuKernel);
  for (const KernelEntry& entry : CpuKernels()) {
    if (entry.op == spec.op) return entry.prepare(spec);
  }
  return NoKernel(spec);
}

}  // namespace sluice
