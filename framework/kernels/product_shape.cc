#include "framework/kernels/product_shape.h"

#include <algorithm>
#include <string>

#include "framework/attributes/attributes.h"
#include "framework/base/status.h"
#include "framework/kernels/prepared.h"

namespace sluice {
namespace {

// A matrix operand by the factors of its last two dimensions, of a [..mk], b [kn], y [..mn]: "mk",
// or "km" where it lies transposed.
struct Matrix {
  std::string factors;
  bool has(char factor) const { return factors.find(factor) != std::string::npos; }
};

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

Words WordsOf(const MatMulAttributes& attributes, MatMulPass pass) {
  const Matrix a = {attributes.transpose_a ? "km" : "mk"};
  const Matrix b = {attributes.transpose_b ? "nk" : "kn"};
  const Matrix y = {"mn"};
  switch (pass) {
    case MatMulPass::kForward:
      return {a, b, y};
    case MatMulPass::kInputGradient:
      return {y, b, a};
    case MatMulPass::kRightGradient:
      return {a, y, b};
  }
  return {};
}

MatMulProduct ProductOf(const Words& words, const Shape& left, const Shape& right,
                        const Shape& out) {
  const char row = words.out.factors[0], column = words.out.factors[1];
  MatMulProduct product;
  product.swapped = !words.left.has(row);
  const Matrix& a = product.swapped ? words.right : words.left;
  const Matrix& b = product.swapped ? words.left : words.right;
  const Shape& a_shape = product.swapped ? right : left;
  const Shape& b_shape = product.swapped ? left : right;
  const char summed = a.factors[0] == row ? a.factors[1] : a.factors[0];
  ProductShape& shape = product.shape;
  shape.m = Extent(a, a_shape, row);
  shape.k = Extent(a, a_shape, summed);
  shape.n = Extent(b, b_shape, column);
  shape.transpose_a = a.factors[0] != row;
  shape.transpose_b = b.factors[0] != summed;
  shape.batch = std::max(Leading(left), Leading(right));
  if (left.rank() == 2 || right.rank() == 2) shape.batch = Leading(left) * Leading(right);
  shape.batch_a = a_shape.rank() > 2 ? shape.m * shape.k : 0;
  shape.batch_b = b_shape.rank() > 2 ? shape.k * shape.n : 0;
  if (shape.batch == 1) return product;
  if (out.rank() == 2) {  // summed over the leading dimensions too: both lie row on row
    shape.k *= shape.batch;
    shape.batch = 1;
  } else if (shape.batch_b == 0 && !shape.transpose_a) {
    shape.m *= shape.batch;
    shape.batch = 1;
  }
  return product;
}

absl::Status CheckTypes(const KernelSpec& spec) {
  const DType operands = spec.inputs[0].dtype, result = spec.outputs[0].dtype;
  const bool known = operands == DType::kF32 || operands == DType::kBF16;
  if (known && spec.inputs[1].dtype == operands && (result == operands || result == DType::kF32)) {
    return absl::OkStatus();
  }
  return NoKernel(spec);
}

}  // namespace

absl::StatusOr<MatMulProduct> MatMulProductOf(const KernelSpec& spec, MatMulPass pass) {
  RETURN_IF_ERROR(CheckTypes(spec));
  ASSIGN_OR_RETURN(const MatMulAttributes attributes,
                   ParseAttributes<MatMulAttributes>(spec.attributes));
  MatMulProduct product = ProductOf(WordsOf(attributes, pass), spec.inputs[0].local,
                                    spec.inputs[1].local, spec.outputs[0].local);
  product.shape.operands = spec.inputs[0].dtype;
  product.shape.result = spec.outputs[0].dtype;
  return product;
}

}  // namespace sluice
