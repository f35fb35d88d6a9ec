// Layer normalization over the last dimension, with biased variance. Its statistics are outputs,
// for the gradient.
#include <cmath>

#include "framework/ops/cases.h"
#include "framework/ops/inference.h"
#include "framework/ops/op_defs.h"
#include "framework/ops/ops.h"
#include "framework/ops/reference.h"

namespace sluice {
namespace {

// x, then per-column tensors and per-row statistics.
absl::Status CheckOperands(absl::string_view op, const TensorType& x,
                           std::initializer_list<const TensorType*> columns,
                           std::initializer_list<const TensorType*> rows) {
  RETURN_IF_ERROR(CheckFloat(op, "x", x));
  if (x.shape.rank() == 0) {
    return Mismatch(op, "expected at least one dimension, got ", TypeText(x));
  }
  const Shape width = {x.shape[x.shape.rank() - 1]};
  for (const TensorType* type : columns) {
    if (type->shape != width || !IsFloat(type->dtype)) {
      return Mismatch(op, "expected ", width.ToString(), " for gamma and beta, got ",
                      TypeText(*type), " beside ", TypeText(x));
    }
  }
  const TensorType statistics = {StatisticsType(x.dtype), Leading(x.shape, 1)};
  for (const TensorType* type : rows) {
    RETURN_IF_ERROR(CheckType(op, "mean and rstd", statistics, *type));
  }
  return absl::OkStatus();
}

absl::Status ReferenceLayerNorm(const ReferenceCall& call) {
  const Array& x = call.inputs[0].array;
  const std::vector<double>& gamma = call.inputs[1].array.values;
  const std::vector<double>& beta = call.inputs[2].array.values;
  const double epsilon = std::get<NormAttributes>(call.attributes).epsilon;
  const int64_t width = RowLength(x), rows = NumRows(x);
  for (int64_t r = 0; r < rows; ++r) {
    const double* from = x.values.data() + r * width;
    double mean = 0, variance = 0;
    for (int64_t e = 0; e < width; ++e) mean += from[e];
    mean /= static_cast<double>(width);
    for (int64_t e = 0; e < width; ++e) variance += (from[e] - mean) * (from[e] - mean);
    const double rstd = 1 / std::sqrt(variance / static_cast<double>(width) + epsilon);
    for (int64_t e = 0; e < width; ++e) {
      call.outputs[0].array.values[r * width + e] = (from[e] - mean) * rstd * gamma[e] + beta[e];
    }
    call.outputs[1].array.values[r] = mean;
    call.outputs[2].array.values[r] = rstd;
  }
  return absl::OkStatus();
}

absl::Status ReferenceLayerNormGradient(const ReferenceCall& call) {
  const std::vector<double>& dy = call.inputs[0].array.values;
  const Array& x = call.inputs[1].array;
  const std::vector<double>& gamma = call.inputs[2].array.values;
  const int64_t width = RowLength(x), rows = NumRows(x);
  for (int64_t r = 0; r < rows; ++r) {
    const double mean = call.inputs[3].array.values[r], rstd = call.inputs[4].array.values[r];
    const auto normal = [&](int64_t e) { return (x.values[r * width + e] - mean) * rstd; };
    const auto slope = [&](int64_t e) { return dy[r * width + e] * gamma[e]; };
    double sum = 0, dot = 0;
    for (int64_t e = 0; e < width; ++e) {
      sum += slope(e);
      dot += slope(e) * normal(e);
    }
    sum /= static_cast<double>(width), dot /= static_cast<double>(width);
    for (int64_t e = 0; e < width; ++e) {
      call.outputs[0].array.values[r * width + e] = rstd * (slope(e) - sum - normal(e) * dot);
    }
  }
  return absl::OkStatus();
}

absl::Status ReferenceParameterGradient(const ReferenceCall& call) {
  const std::vector<double>& dy = call.inputs[0].array.values;
  const Array& x = call.inputs[1].array;
  const int64_t width = RowLength(x), rows = NumRows(x);
  for (int64_t r = 0; r < rows; ++r) {
    const double mean = call.inputs[2].array.values[r], rstd = call.inputs[3].array.values[r];
    for (int64_t e = 0; e < width; ++e) {
      const int64_t i = r * width + e;
      call.outputs[0].array.values[e] += dy[i] * (x.values[i] - mean) * rstd;
      call.outputs[1].array.values[e] += dy[i];
    }
  }
  return absl::OkStatus();
}

void LayerNormGradient(const Node& node, absl::Span<const Tensor> inputs,
                       absl::Span<const Tensor> outputs, absl::Span<const Tensor> dy,
                       std::vector<Gradient>* dx) {
  if (dy[1] || dy[2]) {
    Refuse(outputs[0], "layer_norm", "no gradient flows through mean and rstd");
    return;
  }
  const Tensor &x = inputs[0], &mean = outputs[1], &rstd = outputs[2];
  (*dx)[0] =
      Dense(ApplyOne(LayerNormGradientOp(), node.attributes, {dy[0], x, inputs[1], mean, rstd}));
  const std::vector<Tensor> parameters =
      Apply(LayerNormParameterGradientOp(), NoAttributes(), {dy[0], x, mean, rstd});
  if (!Present(parameters)) return;
  (*dx)[1] = Dense(Cast(parameters[0], inputs[1].dtype()));
  (*dx)[2] = Dense(Cast(parameters[1], inputs[2].dtype()));
}

}  // namespace

const OpDef& LayerNormOp() {
  static const OpDef op = [] {
    OpDef op;
    op.name = "layer_norm";
    op.inputs = {{"x"}, {"gamma"}, {"beta"}};
    op.outputs = {{"y"}, {"mean"}, {"rstd"}};
    op.attributes = NormAttributes();
    op.infer = [](const OpCall& call) -> absl::StatusOr<Types> {
      RETURN_IF_ERROR(CheckCount("layer_norm", call, 3));
      const TensorType& x = call.inputs[0];
      RETURN_IF_ERROR(CheckOperands("layer_norm", x, {&call.inputs[1], &call.inputs[2]}, {}));
      const TensorType statistics = {StatisticsType(x.dtype), Leading(x.shape, 1)};
      return Types{x, statistics, statistics};
    };
    op.rule = [](const OpCall&) { return IndexRule::Parse("...E,E,E->...E,...,..."); };
    op.gradient = LayerNormGradient;
    op.cost = [](const OpCall& call) { return RowsCost(call, call.inputs[0], 8, 1 << 16); };
    op.reference = ReferenceLayerNorm;
    op.cases = {{"matrix", NormAttributes(), {F32({5, 7}), F32({7}), F32({7})}},
                {"cube", NormAttributes{1e-3}, {F32({3, 2, 5}), F32({5}), F32({5})}}};
    op.large_cases = {{"", NormAttributes(), {Wide(), WideRow(), WideRow()}}};
    op.timing = {RowsByLength(), [](At at) {
                   const TensorType row = F32({at[1]});
                   return OpCase{"", NormAttributes(), {F32({at[0], at[1]}), row, row}};
                 }};
    return op;
  }();
  return op;
}

const OpDef& LayerNormGradientOp() {
  static const OpDef op = [] {
    OpDef op;
    op.name = "layer_norm_gradient";
    op.inputs = {{"dy"}, {"x"}, {"gamma"}, {"mean"}, {"rstd"}};
    op.outputs = {{"dx"}};
    op.attributes = NormAttributes();
    op.infer = [](const OpCall& call) -> absl::StatusOr<Types> {
      RETURN_IF_ERROR(CheckCount("layer_norm_gradient", call, 5));
      const TensorType& x = call.inputs[1];
      RETURN_IF_ERROR(CheckOperands("layer_norm_gradient", x, {&call.inputs[2]},
                                    {&call.inputs[3], &call.inputs[4]}));
      RETURN_IF_ERROR(CheckType("layer_norm_gradient", "dy", x, call.inputs[0]));
      return Types{x};
    };
    op.rule = [](const OpCall&) {
      return IndexRule::Parse("...E,...E,E,...,...->...E", {{0}, {2}});
    };
    op.cost = [](const OpCall& call) { return RowsCost(call, call.inputs[0], 12, 1 << 16); };
    op.reference = ReferenceLayerNormGradient;
    op.cases = {
        {"matrix", NormAttributes(), {F32({5, 7}), F32({5, 7}), F32({7}), F32({5}), F32({5})}},
        {"cube",
         NormAttributes(),
         {F32({3, 2, 5}), F32({3, 2, 5}), F32({5}), F32({3, 2}), F32({3, 2})}}};
    op.large_cases = {
        {"", NormAttributes(), {Wide(), Wide(), WideRow(), WideColumn(), WideColumn()}}};
    op.timing = {RowsByLength(), [](At at) {
                   const TensorType x = F32({at[0], at[1]}), column = F32({at[0]});
                   return OpCase{"", NormAttributes(), {x, x, F32({at[1]}), column, column}};
                 }};
    return op;
  }();
  return op;
}

const OpDef& LayerNormParameterGradientOp() {
  static const OpDef op = [] {
    OpDef op;
    op.name = "layer_norm_parameter_gradient";
    op.inputs = {{"dy"}, {"x"}, {"mean"}, {"rstd"}};
    op.outputs = {{"dgamma"}, {"dbeta"}};
    op.infer = [](const OpCall& call) -> absl::StatusOr<Types> {
      const char* name = "layer_norm_parameter_gradient";
      RETURN_IF_ERROR(CheckCount(name, call, 4));
      const TensorType& x = call.inputs[1];
      RETURN_IF_ERROR(CheckOperands(name, x, {}, {&call.inputs[2], &call.inputs[3]}));
      RETURN_IF_ERROR(CheckType(name, "dy", x, call.inputs[0]));
      // At least f32: these sums are long.
      const TensorType sums = {StatisticsType(x.dtype), {x.shape[x.shape.rank() - 1]}};
      return Types{sums, sums};
    };
    op.rule = [](const OpCall&) { return IndexRule::Parse("...e,...e,...,...->e,e", {{0}}); };
    op.cost = [](const OpCall& call) {
      return RowsCost(call, call.inputs[0], 4, 64 * BytesOf(call.outputs));
    };
    op.reference = ReferenceParameterGradient;
    op.cases = {
        {"matrix", NoAttributes(), {F32({5, 7}), F32({5, 7}), F32({5}), F32({5})}},
        {"cube", NoAttributes(), {F32({3, 2, 5}), F32({3, 2, 5}), F32({3, 2}), F32({3, 2})}}};
    op.large_cases = {{"", NoAttributes(), {Wide(), Wide(), WideColumn(), WideColumn()}}};
    op.timing = {RowsByLength(), [](At at) {
                   const TensorType x = F32({at[0], at[1]}), column = F32({at[0]});
                   return OpCase{"", NoAttributes(), {x, x, column, column}};
                 }};
    return op;
  }();
  return op;
}

Tensor LayerNorm(Tensor x, Tensor gamma, Tensor beta, double epsilon) {
  return ApplyOne(LayerNormOp(), NormAttributes{epsilon}, {x, gamma, beta});
}

}  // namespace sluice
