// A kernel of a CPU as one of an asynchronous device (device/async.h): Launch gives it to the
// stream, which runs it later.
#ifndef SLUICE_FRAMEWORK_KERNELS_ASYNC_KERNEL_H_
#define SLUICE_FRAMEWORK_KERNELS_ASYNC_KERNEL_H_

#include <memory>

#include "framework/kernels/kernel.h"

namespace sluice {

// `operands`: how many the kernel has. `transfer`: they may lie in other memory spaces.
std::unique_ptr<Kernel> MakeAsyncKernel(std::unique_ptr<Kernel> kernel, int operands, bool transfer,
                                        KernelPlace place);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_KERNELS_ASYNC_KERNEL_H_
