// The kernels of the CPU device, one function an op, as kernel_list.inc has them. Each checks
// dtypes and fixes shapes; the errors are NotFound (no kernel for these dtypes) and InternalError.
#ifndef SLUICE_FRAMEWORK_KERNELS_CPU_ALL_KERNELS_H_
#define SLUICE_FRAMEWORK_KERNELS_CPU_ALL_KERNELS_H_

#include "framework/kernels/cpu/parallel.h"

namespace sluice::cpu {

#define SLUICE_KERNEL(op, Name) PreparedKernel Prepare##Name(const KernelSpec& spec);
#include "framework/kernels/cpu/kernel_list.inc"
#undef SLUICE_KERNEL

}  // namespace sluice::cpu

#endif  // SLUICE_FRAMEWORK_KERNELS_CPU_ALL_KERNELS_H_
