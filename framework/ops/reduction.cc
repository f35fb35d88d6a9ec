// Reductions over chosen dimensions, and the sum of squares. The factor of a dimension is that of
// its place in the input.
#include <algorithm>
#include <utility>

#include "framework/ops/cases.h"
#include "framework/ops/inference.h"
#include "framework/ops/op_defs.h"
#include "framework/ops/ops.h"
#include "framework/ops/reference.h"

namespace sluice {
namespace {

const ReduceAttributes& Get(const Attributes& attributes) {
  return std::get<ReduceAttributes>(attributes);
}

bool Reduces(const ReduceAttributes& attributes, int dim) {
  const Shape& dims = attributes.dims;
  return std::find(dims.begin(), dims.end(), dim) != dims.end();
}

Shape Kept(const Shape& shape, const ReduceAttributes& attributes) {
  Shape kept;
  for (int d = 0; d < shape.rank(); ++d) {
    if (!Reduces(attributes, d)) kept.Append(shape[d]);
  }
  return kept;
}

// Elements that one result stands for, in the logical tensor.
int64_t Reduced(const Shape& logical, const ReduceAttributes& attributes) {
  int64_t count = 1;
  for (int64_t d : attributes.dims) count *= logical[static_cast<int>(d)];
  return count;
}

absl::StatusOr<Types> InferReduce(const OpCall& call) {
  RETURN_IF_ERROR(CheckCount("reduce", call, 1));
  const TensorType& x = call.inputs[0];
  const ReduceAttributes& attributes = Get(call.attributes);
  RETURN_IF_ERROR(CheckFloat("reduce", "x", x));
  for (int i = 0; i < attributes.dims.rank(); ++i) {
    RETURN_IF_ERROR(CheckDim("reduce", attributes.dims[i], x.shape));
    for (int j = 0; j < i; ++j) {
      if (attributes.dims[i] == attributes.dims[j]) {
        return Mismatch("reduce", "expected each dimension once, got ", attributes.dims.ToString());
      }
    }
  }
  if (attributes.reduction == Reduction::kNone ||
      (attributes.mean && attributes.reduction != Reduction::kSum)) {
    return Mismatch("reduce", "expected sum, max or min, and mean only with sum; got ",
                    ReductionName(attributes.reduction), attributes.mean ? " with mean" : "");
  }
  return Types{{StatisticsType(x.dtype), Kept(x.shape, attributes)}};
}

absl::StatusOr<IndexRule> ReduceRule(const OpCall& call) {
  const ReduceAttributes& attributes = Get(call.attributes);
  const std::string factors = DimFactors(call.inputs[0].shape.rank());
  std::string kept;
  for (size_t d = 0; d < factors.size(); ++d) {
    if (!Reduces(attributes, static_cast<int>(d))) kept += factors[d];
  }
  std::vector<std::vector<int>> linear;
  if (attributes.reduction == Reduction::kSum) linear = {{0}};
  return IndexRule::Parse(absl::StrCat(factors, "->", kept), std::move(linear),
                          attributes.reduction);
}

void ReduceGradient(const Node& node, absl::Span<const Tensor> inputs,
                    absl::Span<const Tensor> outputs, absl::Span<const Tensor> dy,
                    std::vector<Gradient>* dx) {
  const ReduceAttributes& attributes = Get(node.attributes);
  if (attributes.reduction != Reduction::kSum) {
    Refuse(outputs[0], "reduce",
           absl::StrCat("no gradient flows through a ", ReductionName(attributes.reduction)));
    return;
  }
  const Shape& shape = inputs[0].shape();
  Shape ones = shape;
  for (int64_t d : attributes.dims) ones[static_cast<int>(d)] = 1;
  Tensor gradient = dy[0];
  if (attributes.mean) {
    gradient = Scale(gradient, 1.0 / static_cast<double>(Reduced(shape, attributes)));
  }
  // What was left of leading reductions broadcasts as it is, a scalar too.
  const int leading = attributes.dims.rank();
  bool trails = true;
  for (int d = 0; d < leading; ++d) trails = trails && Reduces(attributes, d);
  if (!trails) gradient = Reshape(gradient, ones);
  (*dx)[0] = Dense(BroadcastTo(gradient, shape));
}

absl::Status ReferenceReduce(const ReferenceCall& call) {
  const ReduceAttributes& attributes = Get(call.attributes);
  const ShardArray& x = call.inputs[0];
  ShardArray& y = call.outputs[0];
  if (attributes.reduction != Reduction::kSum) {
    for (double& value : y.array.values) value = IdentityOf(attributes.reduction);
  }
  ForEachIndex(x.box, [&](const Shape& index, int64_t flat) {
    double& to = y.array.values[FlatAt(y.box, Kept(index, attributes))];
    to = Reduce(attributes.reduction, to, x.array.values[flat]);
  });
  if (attributes.mean) {
    const double count = static_cast<double>(Reduced(x.logical.shape, attributes));
    for (double& value : y.array.values) value /= count;
  }
  return absl::OkStatus();
}

Tensor ReduceBy(Tensor x, Reduction reduction, bool mean, const Shape& dims) {
  if (x && dims.rank() == 0) return x;
  return ApplyOne(ReduceOp(), ReduceAttributes{reduction, mean, dims}, {x});
}

}  // namespace

const OpDef& ReduceOp() {
  static const OpDef op = [] {
    OpDef op;
    op.name = "reduce";
    op.inputs = {{"x"}};
    op.computes_in = ComputesIn::kEither;
    op.outputs = {{"y"}};
    op.attributes = ReduceAttributes();
    op.infer = InferReduce;
    op.rule = ReduceRule;
    op.gradient = ReduceGradient;
    op.cost = [](const OpCall& call) {
      const Shape& x = call.inputs[0].shape;
      int64_t columns = 1;
      for (int d = x.rank() - 1; d >= 0 && !Reduces(Get(call.attributes), d); --d) columns *= x[d];
      // A bias gradient is the case that counts: rows summed to one.
      const int64_t kept = call.outputs[0].shape.NumElements();
      const int64_t groups = kept / std::max<int64_t>(columns, 1);
      const int64_t rows = x.NumElements() / std::max<int64_t>(kept, 1);
      Cost cost = ElementwiseCost(
          call, 1,
          std::max(64 * BytesOf(call.outputs), BlockSumsScratch(groups, rows, columns, 1)));
      cost.sizes = {kept == 0 ? 0 : call.inputs[0].shape.NumElements() / kept, kept};
      return cost;
    };
    op.reference = ReferenceReduce;
    const TensorType x = {DType::kF32, {5, 3, 4}};
    OpCase max = {"max", ReduceAttributes{Reduction::kMax, false, {1}}, {x}};
    max.check_gradient = false;
    op.cases = {{"sum_last", ReduceAttributes{Reduction::kSum, false, {2}}, {x}},
                {"sum_leading", ReduceAttributes{Reduction::kSum, false, {0, 1}}, {x}},
                {"sum_outer", ReduceAttributes{Reduction::kSum, false, {0, 2}}, {x}},
                {"mean", ReduceAttributes{Reduction::kSum, true, {0, 1, 2}}, {x}},
                {"mean_middle", ReduceAttributes{Reduction::kSum, true, {1}}, {x}},
                max};
    op.large_cases = {{"", ReduceAttributes{Reduction::kSum, false, {0}}, {Wide()}},
                      {"", ReduceAttributes{Reduction::kSum, true, {1}}, {Wide()}},
                      {"", ReduceAttributes{Reduction::kSum, true, {1}}, {F32({3, 1203, 67})}},
                      {"", ReduceAttributes{Reduction::kSum, true, {0, 1}}, {Wide()}},
                      {"", ReduceAttributes{Reduction::kSum, false, {0, 2}}, {F32({5, 7, 31, 67})}},
                      {"", ReduceAttributes{Reduction::kMax, false, {0}}, {Wide()}},
                      {"", ReduceAttributes{Reduction::kMin, false, {1}}, {Wide()}},
                      {"", ReduceAttributes{Reduction::kMax, false, {0, 1}}, {Wide()}}};
    op.timing = {
        RowsByLength(), [](At at) {
          return OpCase{"", ReduceAttributes{Reduction::kSum, false, {0}}, {F32({at[0], at[1]})}};
        }};
    return op;
  }();
  return op;
}

const OpDef& SumSquaresOp() {
  static const OpDef op = [] {
    OpDef op;
    op.name = "sum_squares";
    op.inputs = {{"x"}};
    op.outputs = {{"y"}};
    op.infer = [](const OpCall& call) -> absl::StatusOr<Types> {
      RETURN_IF_ERROR(CheckCount("sum_squares", call, 1));
      RETURN_IF_ERROR(CheckFloat("sum_squares", "x", call.inputs[0]));
      return Types{{StatisticsType(call.inputs[0].dtype), {}}};
    };
    op.rule = [](const OpCall&) { return IndexRule::Parse("...->"); };
    op.gradient = [](const Node&, absl::Span<const Tensor> inputs, absl::Span<const Tensor>,
                     absl::Span<const Tensor> dy, std::vector<Gradient>* dx) {
      (*dx)[0] = Dense(Multiply(inputs[0], Cast(Scale(dy[0], 2), inputs[0].dtype())));
    };
    op.cost = [](const OpCall& call) { return ElementwiseCost(call, 2, 4096); };
    op.reference = [](const ReferenceCall& call) {
      for (double x : call.inputs[0].array.values) call.outputs[0].array.values[0] += x * x;
      return absl::OkStatus();
    };
    op.joins = true;
    op.cases = {{"matrix", NoAttributes(), {{DType::kF32, {5, 7}}}},
                {"scalar", NoAttributes(), {{DType::kF32, {}}}}};
    op.large_cases = {{"", NoAttributes(), {Wide()}}};
    op.timing = TimedByElements<1>();
    return op;
  }();
  return op;
}

Tensor ReduceSum(Tensor x, const Shape& dims) { return ReduceBy(x, Reduction::kSum, false, dims); }
Tensor ReduceMax(Tensor x, const Shape& dims) { return ReduceBy(x, Reduction::kMax, false, dims); }
Tensor ReduceMean(Tensor x, const Shape& dims) { return ReduceBy(x, Reduction::kSum, true, dims); }
Tensor Mean(Tensor x) {
  if (!x) return x;
  Shape dims;
  for (int d = 0; d < x.shape().rank(); ++d) dims.Append(d);
  return ReduceMean(x, dims);
}
Tensor SumSquares(Tensor x) { return ApplyOne(SumSquaresOp(), NoAttributes(), {x}); }

}  // namespace sluice
