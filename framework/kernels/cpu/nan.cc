#include "framework/kernels/cpu/nan.h"

#include "framework/kernels/cpu/vector.h"

namespace sluice {

bool HasNan(const float* values, int64_t n) { return cpu::Vectors().arithmetic.has_nan(values, n); }

}  // namespace sluice
