// What the CPU kernels share: a Kernel made of a closure, and splitting work over a thread pool.
// For the files of this package only.
#ifndef SLUICE_FRAMEWORK_KERNELS_CPU_PREPARED_H_
#define SLUICE_FRAMEWORK_KERNELS_CPU_PREPARED_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "framework/attributes/attributes.h"
#include "framework/base/status.h"
#include "framework/kernels/kernel.h"

namespace sluice::cpu {

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

// Elements that are worth waking another thread for, by what an element costs.
constexpr int64_t kCheapGrain = 32768, kCostlyGrain = 4096;

// fn(begin, end) over [0, n), cut at multiples of 16 into at most one piece a thread and pieces of
// at least `grain`. Results must not depend on the cuts.
template <typename F>
void Parallel(const KernelContext& context, int64_t n, int64_t grain, F&& fn) {
  ThreadPool* const pool = context.thread_pool();
  const int64_t threads = pool == nullptr ? 1 : pool->threads();
  const int64_t pieces = std::min(threads, n / grain);
  if (pieces <= 1) {
    if (n > 0) fn(int64_t{0}, n);
    return;
  }
  const int64_t groups = (n + 15) / 16;
  pool->ForEach(pieces, [&](int64_t i) {
    const Range range = Cut({0, groups}, pieces, i);
    fn(range.begin * 16, std::min(range.end * 16, n));
  });
}

// The same over rows of `cost` elements each, cut anywhere.
template <typename F>
void ParallelRows(const KernelContext& context, int64_t rows, int64_t cost, int64_t grain, F&& fn) {
  ThreadPool* const pool = context.thread_pool();
  const int64_t threads = pool == nullptr ? 1 : pool->threads();
  const int64_t pieces = std::min({threads, rows * cost / grain, rows});
  if (pieces <= 1) {
    if (rows > 0) fn(int64_t{0}, rows);
    return;
  }
  pool->ForEach(pieces, [&](int64_t i) {
    const Range range = Cut({0, rows}, pieces, i);
    fn(range.begin, range.end);
  });
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

// run(i) for every piece, by the threads of the pool where there is one.
template <typename F>
void ForEachPiece(const KernelContext& context, int64_t pieces, F&& run) {
  if (ThreadPool* const pool = context.thread_pool(); pieces > 1 && pool != nullptr) {
    pool->ForEach(pieces, run);
  } else {
    for (int64_t i = 0; i < pieces; ++i) run(i);
  }
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

}  // namespace sluice::cpu

#endif  // SLUICE_FRAMEWORK_KERNELS_CPU_PREPARED_H_
