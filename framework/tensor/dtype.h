// The element types of tensors. Pure values; any thread.
#ifndef SLUICE_FRAMEWORK_TENSOR_DTYPE_H_
#define SLUICE_FRAMEWORK_TENSOR_DTYPE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sluice {

// u8 is for what is fed, such as pictures; ops compute in the others.
enum class DType : uint8_t { kF32, kF64, kBF16, kI32, kU8 };
inline constexpr DType kDTypes[] = {DType::kF32, DType::kF64, DType::kBF16, DType::kI32,
                                    DType::kU8};

// Bytes of one element.
int64_t SizeOf(DType dtype);

// "f32", "f64", "bf16", "i32", "u8"; the spelling of every text form.
absl::string_view DTypeName(DType dtype);
absl::StatusOr<DType> ParseDType(absl::string_view name);

inline bool IsFloat(DType dtype) { return dtype != DType::kI32 && dtype != DType::kU8; }

// Whether a number, as files and messages have it, is that of an element type.
inline bool IsDType(int64_t number) {
  return number >= 0 && number <= static_cast<int64_t>(DType::kU8);
}

// Round to nearest even; NaN stays NaN.
uint16_t FloatToBFloat16(float value);
float BFloat16ToFloat(uint16_t bits);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TENSOR_DTYPE_H_
