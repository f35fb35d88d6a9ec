// With check_nan, a kernel that looks at what the kernel within it wrote.
#ifndef SLUICE_FRAMEWORK_RUNTIME_NAN_CHECK_H_
#define SLUICE_FRAMEWORK_RUNTIME_NAN_CHECK_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "framework/kernels/device_support.h"
#include "framework/kernels/kernel.h"
#include "framework/tensor/dtype.h"

namespace sluice {

// OutOfRange if a result of the kernel, which must be one of a CPU, is NaN or, where it may not be,
// infinite.
std::unique_ptr<Kernel> MakeNanCheck(std::unique_ptr<Kernel> kernel,
                                     std::vector<WrittenOperand> written);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_RUNTIME_NAN_CHECK_H_
