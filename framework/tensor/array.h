// Host tensors. Array holds any tensor in f64: reference implementations, the interpreter and tests
// compute in it. HostTensor holds raw bytes of one dtype: feeds, fetches and checkpoints travel in
// it.
#ifndef SLUICE_FRAMEWORK_TENSOR_ARRAY_H_
#define SLUICE_FRAMEWORK_TENSOR_ARRAY_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "framework/tensor/dtype.h"
#include "framework/tensor/shape.h"
#include "framework/tensor/shard.h"

namespace sluice {

// Row-major f64 values of a shape; i32 tensors too (every i32 is exact in f64).
struct Array {
  Shape shape;
  std::vector<double> values;

  Array() = default;
  explicit Array(const Shape& s, double fill = 0) : shape(s), values(s.NumElements(), fill) {}
};

// The elements of `box` out of the array of `outer`, and back.
Array Slice(const Array& array, const Box& outer, const Box& box);
void Assign(const Array& from, const Box& box, const Box& outer, Array* to);

struct HostTensor {
  DType dtype = DType::kF32;
  Shape shape;
  std::vector<std::byte> bytes;

  HostTensor() = default;
  HostTensor(DType d, const Shape& s) : dtype(d), shape(s), bytes(s.NumElements() * SizeOf(d)) {}
  template <typename T>
  T* data() {
    return reinterpret_cast<T*>(bytes.data());
  }
  template <typename T>
  const T* data() const {
    return reinterpret_cast<const T*>(bytes.data());
  }
};

// Conversions round to nearest; to i32 they truncate.
Array ToArray(const HostTensor& tensor);
HostTensor FromArray(const Array& array, DType dtype);
double LoadElement(DType dtype, const std::byte* data, int64_t index);
void StoreElement(DType dtype, std::byte* data, int64_t index, double value);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TENSOR_ARRAY_H_
