// CUDA devices and their kernels, for a runtime (kernels/device_support.h).
#ifndef SLUICE_FRAMEWORK_KERNELS_CUDA_SUPPORT_H_
#define SLUICE_FRAMEWORK_KERNELS_CUDA_SUPPORT_H_

#include "absl/types/span.h"
#include "framework/kernels/device_support.h"

namespace sluice {

const DeviceSupport& CudaSupport();
// Every kernel of CUDA devices, in order (kernel_list.inc).
absl::Span<const KernelEntry> CudaKernels();

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_KERNELS_CUDA_SUPPORT_H_
