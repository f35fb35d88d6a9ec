// The kernels of CUDA devices, one function an op, as kernel_list.inc has them. Each checks dtypes
// and fixes shapes; the errors are NotFound (no kernel for these dtypes) and InternalError.
#ifndef SLUICE_FRAMEWORK_KERNELS_CUDA_ALL_KERNELS_H_
#define SLUICE_FRAMEWORK_KERNELS_CUDA_ALL_KERNELS_H_

#include "framework/kernels/prepared.h"

namespace sluice::cuda {

#define SLUICE_KERNEL(op, Name) PreparedKernel Prepare##Name(const KernelSpec& spec);
#include "framework/kernels/cuda/kernel_list.inc"
#undef SLUICE_KERNEL

// Copies between memory spaces (transfer.cc), which are no ops.
PreparedKernel PrepareTransfer(const KernelSpec& spec);

}  // namespace sluice::cuda

#endif  // SLUICE_FRAMEWORK_KERNELS_CUDA_ALL_KERNELS_H_
