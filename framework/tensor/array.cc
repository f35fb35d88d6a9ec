#include "framework/tensor/array.h"

#include <algorithm>

namespace sluice {

Array Slice(const Array& array, const Box& outer, const Box& box) {
  Array result(ShapeOf(box));
  int64_t at = 0;
  ForEachRow(outer, box, [&](int64_t offset, int64_t length) {
    std::copy_n(array.values.begin() + offset, length, result.values.begin() + at);
    at += length;
  });
  return result;
}

void Assign(const Array& from, const Box& box, const Box& outer, Array* to) {
  int64_t at = 0;
  ForEachRow(outer, box, [&](int64_t offset, int64_t length) {
    std::copy_n(from.values.begin() + at, length, to->values.begin() + offset);
    at += length;
  });
}

double LoadElement(DType dtype, const std::byte* data, int64_t index) {
  switch (dtype) {
    case DType::kF32:
      return reinterpret_cast<const float*>(data)[index];
    case DType::kF64:
      return reinterpret_cast<const double*>(data)[index];
    case DType::kBF16:
      return BFloat16ToFloat(reinterpret_cast<const uint16_t*>(data)[index]);
    case DType::kI32:
      return reinterpret_cast<const int32_t*>(data)[index];
    case DType::kU8:
      return std::to_integer<uint8_t>(data[index]);
  }
  return 0;
}

void StoreElement(DType dtype, std::byte* data, int64_t index, double value) {
  switch (dtype) {
    case DType::kF32:
      reinterpret_cast<float*>(data)[index] = static_cast<float>(value);
      return;
    case DType::kF64:
      reinterpret_cast<double*>(data)[index] = value;
      return;
    case DType::kBF16:
      reinterpret_cast<uint16_t*>(data)[index] = FloatToBFloat16(static_cast<float>(value));
      return;
    case DType::kI32:
      reinterpret_cast<int32_t*>(data)[index] = static_cast<int32_t>(value);
      return;
    case DType::kU8:
      data[index] = static_cast<std::byte>(static_cast<uint8_t>(value));
      return;
  }
}

Array ToArray(const HostTensor& tensor) {
  Array array(tensor.shape);
  for (size_t i = 0; i < array.values.size(); ++i) {
    array.values[i] = LoadElement(tensor.dtype, tensor.bytes.data(), static_cast<int64_t>(i));
  }
  return array;
}

HostTensor FromArray(const Array& array, DType dtype) {
  HostTensor tensor(dtype, array.shape);
  for (size_t i = 0; i < array.values.size(); ++i) {
    StoreElement(dtype, tensor.bytes.data(), static_cast<int64_t>(i), array.values[i]);
  }
  return tensor;
}

}  // namespace sluice
