// One run of a CUDA kernel on host arrays, on the emulation with every access checked, or with
// --config=cuda on a card.
#ifndef SLUICE_FRAMEWORK_CONFORMANCE_CUDA_RUN_H_
#define SLUICE_FRAMEWORK_CONFORMANCE_CUDA_RUN_H_

#include <string>

#include "absl/status/statusor.h"
#include "framework/conformance/kernel_run.h"

namespace sluice {

// Each number of threads is another order of the device's threads and blocks.
absl::StatusOr<KernelRun> RunOnCuda(const KernelCall& call);

// "" if the CPU's kernel gives the same bits, where any NaN is as good as another: hardware has one
// of its own.
std::string BitsOfCpu(const KernelCall& call, const KernelRun& run);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_CONFORMANCE_CUDA_RUN_H_
