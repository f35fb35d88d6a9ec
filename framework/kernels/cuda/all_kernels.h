// The kernels of CUDA devices, one function an op, as kernel_list.inc has them. Each checks dtypes
// and fixes shapes; the errors are NotFound (no kernel for these dtypes) and InternalError.
#ifndef SLUICE_FRAMEWORK_KERNELS_CUDA_ALL_KERNELS_H_
#define SLUICE_FRAMEWORK_KERNELS_CUDA_ALL_KERNELS_H_

#include <memory>
#include <vector>

#include "framework/kernels/device_support.h"
#include "framework/kernels/prepared.h"

namespace sluice::cuda {

#define SLUICE_KERNEL(op, Name) PreparedKernel Prepare##Name(const KernelSpec& spec);
#define SLUICE_JOINED_KERNEL SLUICE_KERNEL
#include "framework/kernels/cuda/kernel_list.inc"
#undef SLUICE_JOINED_KERNEL
#undef SLUICE_KERNEL

// Copies between memory spaces (transfer.cc), which are no ops.
PreparedKernel PrepareTransfer(const KernelSpec& spec);
// The kernel, and one that looks for a NaN in what it wrote (nan_check.cu.cc).
std::unique_ptr<Kernel> CheckNan(std::unique_ptr<Kernel> kernel,
                                 std::vector<WrittenOperand> written);

}  // namespace sluice::cuda

#endif  // SLUICE_FRAMEWORK_KERNELS_CUDA_ALL_KERNELS_H_
