// Which products the ops of matmul are, from the shards of an instruction: what the kernels of all
// kinds of devices share.
#ifndef SLUICE_FRAMEWORK_KERNELS_PRODUCT_SHAPE_H_
#define SLUICE_FRAMEWORK_KERNELS_PRODUCT_SHAPE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "framework/kernels/kernel.h"

namespace sluice {

// c[i] = a[i] b[i], summed in f32, for `batch` matrices. c is dense, row by row: [batch, m, n]. a
// is [m,k], or [k,m] if transposed, b [k,n] or [n,k], both dense; the i-th lies i * batch_a
// (batch_b) elements from the first.
struct ProductShape {
  int64_t batch = 1, m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  int64_t batch_a = 0, batch_b = 0;
  DType operands = DType::kF32;  // of a and b: f32 or bf16
  DType result = DType::kF32;    // of c: the same, or f32
};

// matmul, and its gradients by its left and by its right operand.
enum class MatMulPass { kForward, kInputGradient, kRightGradient };

struct MatMulProduct {
  ProductShape shape;
  bool swapped = false;  // a is the instruction's second input, b its first
};

// Matrices that share the other operand are taken as one with more rows, those that are summed as
// one with more depth. NotFound for dtypes other than f32, or bf16 into either.
absl::StatusOr<MatMulProduct> MatMulProductOf(const KernelSpec& spec, MatMulPass pass);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_KERNELS_PRODUCT_SHAPE_H_
