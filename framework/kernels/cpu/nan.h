// For Fire.check_nan: the runtime looks at what kernels wrote.
#ifndef SLUICE_FRAMEWORK_KERNELS_CPU_NAN_H_
#define SLUICE_FRAMEWORK_KERNELS_CPU_NAN_H_

#include <cstdint>

namespace sluice {

// Whether any of n values is NaN. About the speed of memory; stops at the first block that has one.
bool HasNan(const float* values, int64_t n);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_KERNELS_CPU_NAN_H_
