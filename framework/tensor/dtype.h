// The element types of tensors. Pure values; any thread.
#ifndef SLUICE_FRAMEWORK_TENSOR_DTYPE_H_
#define SLUICE_FRAMEWORK_TENSOR_DTYPE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sluice {

enum class DType : uint8_t { kF32, kF64, kBF16, kI32 };

// Bytes of one element.
int64_t SizeOf(DType dtype);

// "f32", "f64", "bf16", "i32"; the spelling of every text form.
absl::string_view DTypeName(DType dtype);
absl::StatusOr<DType> ParseDType(absl::string_view name);

inline bool IsFloat(DType dtype) { return dtype != DType::kI32; }

// Round to nearest even; NaN stays NaN.
uint16_t FloatToBFloat16(float value);
float BFloat16ToFloat(uint16_t bits);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TENSOR_DTYPE_H_
