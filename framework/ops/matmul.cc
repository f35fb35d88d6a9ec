// Matrix products. The factors 0, 1, .. (leading), m, k, n mean the same in the product and in its
// gradients, so that a backward op can follow the split of its forward op.
#include <utility>

#include "framework/ops/cases.h"
#include "framework/ops/inference.h"
#include "framework/ops/op_defs.h"
#include "framework/ops/ops.h"

namespace sluice {
namespace {

const MatMulAttributes& Get(const Attributes& attributes) {
  return std::get<MatMulAttributes>(attributes);
}

// What a matrix operand is, by the factors of its last two dimensions.
struct Matrix {
  std::string factors;  // "mk", or "km" where it lies transposed
  bool leading = true;  // has the leading dimensions
  std::string term() const { return absl::StrCat(leading ? "..." : "", factors); }
};
Matrix A(const MatMulAttributes& a) { return {a.transpose_a ? "km" : "mk", true}; }
Matrix B(const MatMulAttributes& a, bool leading) { return {a.transpose_b ? "nk" : "kn", leading}; }
Matrix Y() { return {"mn", true}; }

int64_t Extent(const Matrix& matrix, const Shape& shape, char factor) {
  return shape[shape.rank() - 2 + (matrix.factors[1] == factor ? 1 : 0)];
}
Shape ShapeOfMatrix(const Matrix& matrix, const Shape& leading, int64_t first, int64_t second) {
  Shape shape = matrix.leading ? leading : Shape();
  shape.Append(first);
  shape.Append(second);
  return shape;
}

// One product out += left * right over the factor that both have and out has not.
struct Product {
  Matrix left, right, out;
};

// `sums_samples`: the product is summed over samples, and is f32 of bf16 operands too: gradients of
// parameters are added up once more, over micro-batches and devices.
absl::StatusOr<Types> InferProduct(absl::string_view op, const Product& product, const OpCall& call,
                                   bool sums_samples = false) {
  RETURN_IF_ERROR(CheckCount(op, call, 2));
  const TensorType& left = call.inputs[0];
  const TensorType& right = call.inputs[1];
  RETURN_IF_ERROR(CheckFloat(op, "the left operand", left));
  if (left.dtype != right.dtype) {
    return Mismatch(op, "expected one dtype, got ", TypeText(left), " and ", TypeText(right));
  }
  const auto refuse = [&] {
    return Mismatch(op, "expected ", product.left.term(), " and ", product.right.term(), ", got ",
                    TypeText(left), " and ", TypeText(right));
  };
  if (left.shape.rank() < 2 || right.shape.rank() < 2) return refuse();
  const Shape leading = Leading(left.shape, 2);
  const Shape right_leading = Leading(right.shape, 2);
  if (right_leading != (product.right.leading ? leading : Shape())) return refuse();
  const auto find = [&](char factor) {
    const bool in_left = product.left.factors.find(factor) != std::string::npos;
    return in_left ? Extent(product.left, left.shape, factor)
                   : Extent(product.right, right.shape, factor);
  };
  for (char factor : product.right.factors) {
    if (find(factor) != Extent(product.right, right.shape, factor)) return refuse();
  }
  const DType dtype = sums_samples ? StatisticsType(left.dtype) : left.dtype;
  return Types{{dtype, ShapeOfMatrix(product.out, leading, find(product.out.factors[0]),
                                     find(product.out.factors[1]))}};
}

absl::StatusOr<IndexRule> RuleOfProduct(const Product& product) {
  return IndexRule::Parse(
      absl::StrCat(product.left.term(), ",", product.right.term(), "->", product.out.term()),
      {{0}, {1}});
}

Cost CostOfProduct(const Product& product, const OpCall& call) {
  char summed = 0;
  for (char factor : product.left.factors) {
    if (product.out.factors.find(factor) == std::string::npos) summed = factor;
  }
  // Every element of the left operand meets every element of the right one's other dimension.
  const char other =
      product.right.factors[0] == summed ? product.right.factors[1] : product.right.factors[0];
  const int64_t bytes = BytesOf(call.inputs) + BytesOf(call.outputs);
  const int64_t products = CountOf(
      {call.inputs[0].shape.NumElements(), Extent(product.right, call.inputs[1].shape, other)});
  // Matrices that share an operand count as one: more rows, or more depth.
  const Shape& out = call.outputs[0].shape;
  const int64_t elements = out.NumElements(), columns = out[out.rank() - 1];
  Shape sizes = {0, 0, 0};
  if (products > 0) sizes = {elements / columns, columns, products / elements};
  // Panels of an operand; or of bf16, copies of all in f32 with panels of one of those.
  const int64_t copies = call.inputs[0].dtype == DType::kBF16 ? 4 : 1;
  constexpr int64_t kMiB = int64_t{1} << 20;
  // cuBLASLt's heuristics are asked for what does with this much: 32 MiB is what NVIDIA recommends
  // for its largest cards, and a small product has no use for more than its operands.
  const int64_t workspace = std::min(bytes + kMiB, 32 * kMiB);
  return {CountOf({2, products}), bytes, copies * bytes + kMiB, sizes, workspace};
}

// A matrix of a shard: where element (row, col) of the i-th of `count` matrices lies.
struct View {
  int64_t batch, row, col;
};
View ViewOf(const Matrix& matrix, const Shape& shape, char row) {
  const int64_t inner = shape[shape.rank() - 1], outer = shape[shape.rank() - 2];
  const int64_t batch = matrix.leading ? inner * outer : 0;
  return matrix.factors[0] == row ? View{batch, inner, 1} : View{batch, 1, inner};
}

absl::Status ReferenceProduct(const Product& product, const ReferenceCall& call) {
  const Array& left = call.inputs[0].array;
  const Array& right = call.inputs[1].array;
  Array& out = call.outputs[0].array;
  const char row = product.out.factors[0], col = product.out.factors[1];
  const bool left_has_row = product.left.factors.find(row) != std::string::npos;
  const Matrix& first = left_has_row ? product.left : product.right;
  const Matrix& second = left_has_row ? product.right : product.left;
  const Array& a = left_has_row ? left : right;
  const Array& b = left_has_row ? right : left;
  const char summed = first.factors[0] == row ? first.factors[1] : first.factors[0];
  const View av = ViewOf(first, a.shape, row), bv = ViewOf(second, b.shape, summed);
  const View ov = ViewOf(product.out, out.shape, row);
  const int64_t rows = Extent(first, a.shape, row), cols = Extent(second, b.shape, col);
  const int64_t depth = Extent(first, a.shape, summed);
  const int64_t count = Leading(left.shape, 2).NumElements();
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t d = 0; d < depth; ++d) {
        const double x = a.values[i * av.batch + r * av.row + d * av.col];
        const double* y = b.values.data() + i * bv.batch + d * bv.row;
        double* to = out.values.data() + i * ov.batch + r * ov.row;
        for (int64_t c = 0; c < cols; ++c) to[c * ov.col] += x * y[c * bv.col];
      }
    }
  }
  return absl::OkStatus();
}

// The four products, from the attributes and operands of a call.
Product Forward(const MatMulAttributes& a, int right_rank, int left_rank) {
  return {A(a), B(a, right_rank == left_rank), Y()};
}
Product InputGradient(const MatMulAttributes& a, int right_rank, int left_rank) {
  return {Y(), B(a, right_rank == left_rank), A(a)};
}
Product RightGradient(const MatMulAttributes& a, int, int) { return {A(a), Y(), B(a, true)}; }
Product WeightGradient(const MatMulAttributes& a, int, int) { return {A(a), Y(), B(a, false)}; }

using ProductOf = Product (*)(const MatMulAttributes&, int right_rank, int left_rank);

template <ProductOf kProduct>
Product ProductOfCall(const OpCall& call) {
  return kProduct(Get(call.attributes), call.inputs[1].shape.rank(), call.inputs[0].shape.rank());
}

template <ProductOf kProduct>
OpDef MakeProductOp(const char* name, std::vector<Port> inputs, const char* output) {
  OpDef op;
  op.name = name;
  op.inputs = std::move(inputs);
  op.outputs = {{output}};
  op.computes_in = ComputesIn::kLow;
  op.attributes = MatMulAttributes();
  op.rule = [](const OpCall& call) { return RuleOfProduct(ProductOfCall<kProduct>(call)); };
  op.cost = [](const OpCall& call) { return CostOfProduct(ProductOfCall<kProduct>(call), call); };
  op.reference = [](const ReferenceCall& call) {
    return ReferenceProduct(kProduct(Get(call.attributes), call.inputs[1].array.shape.rank(),
                                     call.inputs[0].array.shape.rank()),
                            call);
  };
  return op;
}

void MatMulGradient(const Node& node, absl::Span<const Tensor> inputs, absl::Span<const Tensor>,
                    absl::Span<const Tensor> dy, std::vector<Gradient>* dx) {
  const MatMulAttributes& attributes = Get(node.attributes);
  (*dx)[0] = Dense(ApplyOne(MatMulInputGradientOp(), attributes, {dy[0], inputs[1]}));
  const bool shared = inputs[1].shape().rank() == 2 && !attributes.transpose_a;
  const OpDef& right = shared ? MatMulWeightGradientOp() : MatMulRightGradientOp();
  (*dx)[1] = Dense(ApplyOne(right, attributes, {inputs[0], dy[0]}));
}

MatMulAttributes Transposed(bool a, bool b) { return {a, b}; }

}  // namespace

const OpDef& MatMulOp() {
  static const OpDef op = [] {
    OpDef op = MakeProductOp<Forward>("matmul", {{"a"}, {"b"}}, "y");
    op.infer = [](const OpCall& call) {
      if (call.inputs.size() == 2 && Get(call.attributes).transpose_a &&
          call.inputs[0].shape.rank() != call.inputs[1].shape.rank()) {
        return absl::StatusOr<Types>(Mismatch("matmul", "transpose_a needs equal ranks, got ",
                                              TypeText(call.inputs[0]), " and ",
                                              TypeText(call.inputs[1])));
      }
      return InferProduct("matmul",
                          call.inputs.size() == 2 ? ProductOfCall<Forward>(call) : Product(), call);
    };
    op.gradient = MatMulGradient;
    op.cases = {{"matrix", Transposed(false, false), {F32({5, 3}), F32({3, 4})}},
                {"shared", Transposed(false, false), {F32({2, 5, 3}), F32({3, 4})}},
                {"shared_transposed", Transposed(false, true), {F32({2, 5, 3}), F32({4, 3})}},
                {"batched", Transposed(false, false), {F32({3, 2, 5}), F32({3, 5, 4})}},
                {"batched_transposed", Transposed(true, true), {F32({3, 5, 2}), F32({3, 4, 5})}}};
    op.large_cases = {{"", Transposed(false, false), {F32({3, 65, 83}), F32({83, 71})}},
                      {"", Transposed(false, true), {F32({190, 83}), F32({71, 83})}},
                      {"", Transposed(true, false), {F32({83, 190}), F32({83, 71})}},
                      {"", Transposed(true, true), {F32({4, 83, 70}), F32({4, 71, 83})}},
                      {"", Transposed(false, false), {F32({3001, 83}), F32({83, 1})}},
                      {"", Transposed(false, false), {F32({1, 183}), F32({183, 300})}},
                      {"", Transposed(false, true), {F32({90, 1}), F32({130, 1})}}};
    op.timing = {
        ManyRows(), [](At at) {
          return OpCase{"", Transposed(false, false), {F32({at[0], at[2]}), F32({at[2], at[1]})}};
        }};
    return op;
  }();
  return op;
}

const OpDef& MatMulInputGradientOp() {
  static const OpDef op = [] {
    OpDef op = MakeProductOp<InputGradient>("matmul_input_gradient", {{"dy"}, {"b"}}, "da");
    op.infer = [](const OpCall& call) {
      return InferProduct("matmul_input_gradient",
                          call.inputs.size() == 2 ? ProductOfCall<InputGradient>(call) : Product(),
                          call);
    };
    op.cases = {{"shared", Transposed(false, false), {F32({2, 5, 4}), F32({3, 4})}},
                {"shared_transposed", Transposed(false, true), {F32({2, 5, 4}), F32({4, 3})}},
                {"batched", Transposed(false, false), {F32({3, 2, 4}), F32({3, 5, 4})}},
                {"batched_transposed", Transposed(true, true), {F32({3, 2, 4}), F32({3, 4, 5})}}};
    op.large_cases = {{"", Transposed(false, false), {F32({2, 95, 71}), F32({83, 71})}}};
    op.timing = {
        ManyRows(), [](At at) {
          return OpCase{"", Transposed(false, false), {F32({at[0], at[2]}), F32({at[1], at[2]})}};
        }};
    return op;
  }();
  return op;
}

const OpDef& MatMulRightGradientOp() {
  static const OpDef op = [] {
    OpDef op = MakeProductOp<RightGradient>("matmul_right_gradient", {{"a"}, {"dy"}}, "db");
    op.infer = [](const OpCall& call) {
      return InferProduct("matmul_right_gradient", RightGradient(Get(call.attributes), 0, 0), call);
    };
    op.cases = {{"matrix", Transposed(false, false), {F32({5, 3}), F32({5, 4})}},
                {"batched", Transposed(false, false), {F32({3, 2, 5}), F32({3, 2, 4})}},
                {"batched_transposed", Transposed(true, true), {F32({3, 5, 2}), F32({3, 2, 4})}}};
    op.large_cases = {{"", Transposed(false, true), {F32({2, 150, 83}), F32({2, 150, 71})}}};
    op.timing = NotTimed(kNotInModels);
    return op;
  }();
  return op;
}

const OpDef& MatMulWeightGradientOp() {
  static const OpDef op = [] {
    OpDef op = MakeProductOp<WeightGradient>("matmul_weight_gradient", {{"x"}, {"dy"}}, "dw");
    op.infer = [](const OpCall& call) {
      return InferProduct("matmul_weight_gradient", WeightGradient(Get(call.attributes), 0, 0),
                          call,
                          /*sums_samples=*/true);
    };
    op.cases = {{"shared", Transposed(false, false), {F32({2, 5, 3}), F32({2, 5, 4})}},
                {"shared_transposed", Transposed(false, true), {F32({2, 5, 3}), F32({2, 5, 4})}},
                {"matrix", Transposed(false, false), {F32({5, 3}), F32({5, 4})}}};
    op.large_cases = {{"", Transposed(false, false), {F32({2, 150, 83}), F32({2, 150, 71})}},
                      {"", Transposed(false, true), {F32({2, 150, 83}), F32({2, 150, 71})}}};
    op.timing = {
        MuchDepth(), [](At at) {
          return OpCase{"", Transposed(false, false), {F32({at[2], at[0]}), F32({at[2], at[1]})}};
        }};
    return op;
  }();
  return op;
}

Tensor MatMul(Tensor a, Tensor b, bool transpose_a, bool transpose_b) {
  return ApplyOne(MatMulOp(), Transposed(transpose_a, transpose_b), {a, b});
}

}  // namespace sluice
