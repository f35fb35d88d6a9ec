// What must hold of an instruction of a plan from anywhere before its kernel is made: what the
// catalogue says of its op, as kernels take their loops from some of their operands and touch them
// all. Pure; any thread.
#ifndef SLUICE_FRAMEWORK_SESSION_CHECK_KERNEL_H_
#define SLUICE_FRAMEWORK_SESSION_CHECK_KERNEL_H_

#include "absl/status/status.h"
#include "framework/kernels/kernel.h"

namespace sluice {

// InvalidArgument: operands of other number, type or shape than the op has.
absl::Status CheckKernel(const KernelSpec& spec);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_SESSION_CHECK_KERNEL_H_
