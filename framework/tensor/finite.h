// Whether values of tensors are numbers. Pure; any thread.
#ifndef SLUICE_FRAMEWORK_TENSOR_FINITE_H_
#define SLUICE_FRAMEWORK_TENSOR_FINITE_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "framework/tensor/dtype.h"

namespace sluice {

// The index of the first element that is NaN or infinite, if there is one. Integers have none.
// `data` need not be aligned.
std::optional<int64_t> FirstNotFinite(DType dtype, const std::byte* data, int64_t elements);

// Whether a tensor holds a NaN.
bool HasNan(DType dtype, const std::byte* data, int64_t elements);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TENSOR_FINITE_H_
