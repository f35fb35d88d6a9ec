// The four matrix products of a linear layer, by the factors that they share: a [..mk], b [kn],
// y [..mn]. Matrices that share the other operand are taken as one with more rows.
#include <string>

#include "framework/kernels/cpu/all_kernels.h"
#include "framework/kernels/cpu/product.h"

namespace sluice::cpu {
namespace {

// A matrix operand by its last two dimensions: "mk", or "km" where it lies transposed.
struct Matrix {
  std::string factors;
  bool has(char factor) const { return factors.find(factor) != std::string::npos; }
};
Matrix A(const MatMulAttributes& a) { return {a.transpose_a ? "km" : "mk"}; }
Matrix B(const MatMulAttributes& a) { return {a.transpose_b ? "nk" : "kn"}; }
Matrix Y() { return {"mn"}; }

int64_t Extent(const Matrix& matrix, const Shape& shape, char factor) {
  return shape[shape.rank() - (matrix.factors[0] == factor ? 2 : 1)];
}
int64_t Leading(const Shape& shape) {
  int64_t count = 1;
  for (int d = 0; d + 2 < shape.rank(); ++d) count *= shape[d];
  return count;
}

// out = left * right, summed over the factor that out has not.
struct Words {
  Matrix left, right, out;
};

ProductShape ShapeOf(const Words& words, const Shape& left, const Shape& right, const Shape& out,
                     bool* swapped) {
  const char row = words.out.factors[0], column = words.out.factors[1];
  *swapped = !words.left.has(row);
  const Matrix& a = *swapped ? words.right : words.left;
  const Matrix& b = *swapped ? words.left : words.right;
  const Shape& a_shape = *swapped ? right : left;
  const Shape& b_shape = *swapped ? left : right;
  const char summed = a.factors[0] == row ? a.factors[1] : a.factors[0];
  ProductShape shape;
  shape.m = Extent(a, a_shape, row);
  shape.k = Extent(a, a_shape, summed);
  shape.n = Extent(b, b_shape, column);
  shape.transpose_a = a.factors[0] != row;
  shape.transpose_b = b.factors[0] != summed;
  shape.batch = std::max(Leading(left), Leading(right));
  if (left.rank() == 2 || right.rank() == 2) shape.batch = Leading(left) * Leading(right);
  shape.batch_a = a_shape.rank() > 2 ? shape.m * shape.k : 0;
  shape.batch_b = b_shape.rank() > 2 ? shape.k * shape.n : 0;
  if (shape.batch == 1) return shape;
  if (out.rank() == 2) {  // summed over the leading dimensions too: both lie row on row
    shape.k *= shape.batch;
    shape.batch = 1;
  } else if (shape.batch_b == 0 && !shape.transpose_a) {
    shape.m *= shape.batch;
    shape.batch = 1;
  }
  return shape;
}

// f32, or bf16 into either.
absl::Status CheckTypes(const KernelSpec& spec) {
  const DType operands = spec.inputs[0].dtype, result = spec.outputs[0].dtype;
  const bool known = operands == DType::kF32 || operands == DType::kBF16;
  if (known && spec.inputs[1].dtype == operands && (result == operands || result == DType::kF32)) {
    return absl::OkStatus();
  }
  return NoKernel(spec);
}

PreparedKernel PrepareProduct(const KernelSpec& spec, Words (*words)(const MatMulAttributes&)) {
  RETURN_IF_ERROR(CheckTypes(spec));
  ASSIGN_OR_RETURN(const MatMulAttributes attributes,
                   ParseAttributes<MatMulAttributes>(spec.attributes));
  bool swapped = false;
  ProductShape shape = ShapeOf(words(attributes), spec.inputs[0].local, spec.inputs[1].local,
                               spec.outputs[0].local, &swapped);
  shape.operands = spec.inputs[0].dtype;
  shape.result = spec.outputs[0].dtype;
  ASSIGN_OR_RETURN(const std::shared_ptr<const Product> product,
                   Product::Prepare(shape, spec.threads));
  return MakeKernel(
      [product, swapped](const KernelContext& context, const Operands& at) {
        product->Run(context, at.bytes(swapped ? 1 : 0), at.bytes(swapped ? 0 : 1), at.bytes(2),
                     at.scratch<std::byte>());
      },
      product->scratch());
}

}  // namespace

PreparedKernel PrepareMatMul(const KernelSpec& spec) {
  return PrepareProduct(spec, [](const MatMulAttributes& a) { return Words{A(a), B(a), Y()}; });
}

PreparedKernel PrepareMatMulInputGradient(const KernelSpec& spec) {
  return PrepareProduct(spec, [](const MatMulAttributes& a) { return Words{Y(), B(a), A(a)}; });
}

PreparedKernel PrepareMatMulRightGradient(const KernelSpec& spec) {
  return PrepareProduct(spec, [](const MatMulAttributes& a) { return Words{A(a), Y(), B(a)}; });
}

PreparedKernel PrepareMatMulWeightGradient(const KernelSpec& spec) {
  return PrepareProduct(spec, [](const MatMulAttributes& a) { return Words{A(a), Y(), B(a)}; });
}

}  // namespace sluice::cpu
