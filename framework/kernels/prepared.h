// What the kernels of all kinds of devices share: a Kernel made of a closure, its operands, and the
// checks of dtypes that come before. For the files of kernels/cpu and kernels/cuda only.
#ifndef SLUICE_FRAMEWORK_KERNELS_PREPARED_H_
#define SLUICE_FRAMEWORK_KERNELS_PREPARED_H_

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <type_traits>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/attributes/attributes.h"
#include "framework/base/status.h"
#include "framework/kernels/kernel.h"

namespace sluice {

using PreparedKernel = absl::StatusOr<std::unique_ptr<Kernel>>;

// Inputs, then outputs, of one Launch.
class Operands {
 public:
  Operands(std::byte* const* pointers, std::byte* scratch)
      : pointers_(pointers), scratch_(scratch) {}
  std::byte* bytes(int i) const { return pointers_[i]; }
  template <typename T = float>
  T* at(int i) const {
    return reinterpret_cast<T*>(pointers_[i]);
  }
  template <typename T>
  T* scratch() const {
    return reinterpret_cast<T*>(scratch_);
  }

 private:
  std::byte* const* pointers_;
  std::byte* scratch_;
};

template <typename F>
class ClosureKernel : public Kernel {
 public:
  ClosureKernel(F run, int64_t scratch) : run_(std::move(run)), scratch_(scratch) {}
  absl::Status Launch(const KernelContext& context, std::byte* const* operands,
                      std::byte* scratch) override {
    if constexpr (std::is_void_v<decltype(run_(context, Operands(operands, scratch)))>) {
      run_(context, Operands(operands, scratch));
      return absl::OkStatus();
    } else {
      return run_(context, Operands(operands, scratch));
    }
  }
  int64_t scratch() const override { return scratch_; }

 private:
  F run_;
  int64_t scratch_;
};

// A kernel that calls run(const KernelContext&, const Operands&), which returns nothing or a
// Status.
template <typename F>
PreparedKernel MakeKernel(F run, int64_t scratch = 0) {
  return PreparedKernel(std::make_unique<ClosureKernel<F>>(std::move(run), scratch));
}

// NotFound naming the op and its dtypes.
absl::Status NoKernel(const KernelSpec& spec);
// OK if every operand is f32, but for the inputs listed, which are i32.
absl::Status RequireF32(const KernelSpec& spec, std::initializer_list<int> i32_inputs = {});
// OK if the operands are of these types, inputs and then outputs.
absl::Status RequireTypes(const KernelSpec& spec, absl::Span<const DType> types);
// OK if every operand is of the dtype.
absl::Status RequireAll(const KernelSpec& spec, DType dtype);

// make(T()) with T the type of a loop's elements (FloatLoops of vector.h); NoKernel unless the
// dtype is f32 or bf16.
template <typename F>
PreparedKernel OfFloat(const KernelSpec& spec, DType dtype, F&& make) {
  if (dtype == DType::kF32) return make(float());
  if (dtype == DType::kBF16) return make(uint16_t());
  return NoKernel(spec);
}

// Elements of the innermost dimension, and how many such rows there are. A scalar is one row of
// one.
inline int64_t RowLength(const Shape& shape) {
  return shape.rank() == 0 ? 1 : shape[shape.rank() - 1];
}
inline int64_t NumRows(const Shape& shape) {
  int64_t rows = 1;
  for (int d = 0; d + 1 < shape.rank(); ++d) rows *= shape[d];
  return rows;
}

// Pieces whose starts a cache line holds apart, in a scratch buffer.
inline int64_t AlignedBytes(int64_t bytes) { return (bytes + 63) / 64 * 64; }

// Hands out such pieces of a scratch buffer while a kernel is prepared.
class ScratchLayout {
 public:
  // Where so many bytes begin.
  int64_t Reserve(int64_t bytes) {
    const int64_t at = bytes_;
    bytes_ += AlignedBytes(bytes);
    return at;
  }
  int64_t bytes() const { return bytes_; }

 private:
  int64_t bytes_ = 0;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_KERNELS_PREPARED_H_
