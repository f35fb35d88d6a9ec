// The kernels of a CPU, for instructions of plans from anywhere: what the catalogue says of an op
// must hold of an instruction before its kernel is made, as kernels take their loops from some of
// their operands and touch them all. Pure; any thread.
#ifndef SLUICE_FRAMEWORK_SESSION_CHECKED_KERNEL_H_
#define SLUICE_FRAMEWORK_SESSION_CHECKED_KERNEL_H_

#include <memory>

#include "absl/status/statusor.h"
#include "framework/kernels/kernel.h"

namespace sluice {

// InvalidArgument: operands of other number, type or shape than the op has. Else PrepareCpuKernel.
absl::StatusOr<std::unique_ptr<Kernel>> PrepareCheckedKernel(const KernelSpec& spec);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_SESSION_CHECKED_KERNEL_H_
