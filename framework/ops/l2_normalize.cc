// Rows, along the last dimension, divided by their length, or by epsilon where that is larger, as
// PyTorch's functional.normalize does. The length is an output, for the gradient.
#include <algorithm>
#include <cmath>
#include <utility>

#include "framework/ops/cases.h"
#include "framework/ops/inference.h"
#include "framework/ops/op_defs.h"
#include "framework/ops/ops.h"
#include "framework/ops/reference.h"

namespace sluice {
namespace {

absl::Status CheckX(absl::string_view op, const TensorType& x) {
  RETURN_IF_ERROR(CheckFloat(op, "x", x));
  if (x.shape.rank() > 0) return absl::OkStatus();
  return Mismatch(op, "expected at least one dimension, got ", TypeText(x));
}

TensorType Lengths(const TensorType& x) { return {StatisticsType(x.dtype), Leading(x.shape, 1)}; }

absl::Status ReferenceNormalize(const ReferenceCall& call) {
  const Array& x = call.inputs[0].array;
  const double epsilon = std::get<NormAttributes>(call.attributes).epsilon;
  const int64_t width = RowLength(x), rows = NumRows(x);
  for (int64_t r = 0; r < rows; ++r) {
    double squares = 0;
    for (int64_t e = 0; e < width; ++e) {
      squares += x.values[r * width + e] * x.values[r * width + e];
    }
    const double length = std::sqrt(squares);
    const double divisor = length < epsilon ? epsilon : length;  // NaN stays NaN
    for (int64_t e = 0; e < width; ++e) {
      call.outputs[0].array.values[r * width + e] = x.values[r * width + e] / divisor;
    }
    call.outputs[1].array.values[r] = length;
  }
  return absl::OkStatus();
}

absl::Status ReferenceGradient(const ReferenceCall& call) {
  const Array& x = call.inputs[0].array;
  const std::vector<double>& dy = call.inputs[2].array.values;
  const double epsilon = std::get<NormAttributes>(call.attributes).epsilon;
  const int64_t width = RowLength(x), rows = NumRows(x);
  for (int64_t r = 0; r < rows; ++r) {
    const double length = call.inputs[1].array.values[r];
    const bool shorter = length < epsilon;
    const double divisor = shorter ? epsilon : length;
    double dot = 0;
    for (int64_t e = 0; e < width && !shorter; ++e) {
      dot += dy[r * width + e] * x.values[r * width + e] / (divisor * divisor);
    }
    for (int64_t e = 0; e < width; ++e) {
      const int64_t i = r * width + e;
      call.outputs[0].array.values[i] = (dy[i] - x.values[i] * dot) / divisor;
    }
  }
  return absl::OkStatus();
}

OpDef MakeOp(const char* name, std::vector<Port> inputs, std::vector<Port> outputs) {
  OpDef op;
  op.name = name;
  op.inputs = std::move(inputs);
  op.outputs = std::move(outputs);
  op.attributes = NormAttributes{1e-12};
  op.computes_in = ComputesIn::kEither;
  return op;
}

}  // namespace

const OpDef& L2NormalizeOp() {
  static const OpDef op = [] {
    OpDef op = MakeOp("l2_normalize", {{"x"}}, {{"y"}, {"length"}});
    op.infer = [](const OpCall& call) -> absl::StatusOr<Types> {
      RETURN_IF_ERROR(CheckCount("l2_normalize", call, 1));
      RETURN_IF_ERROR(CheckX("l2_normalize", call.inputs[0]));
      return Types{call.inputs[0], Lengths(call.inputs[0])};
    };
    op.rule = [](const OpCall&) { return IndexRule::Parse("...E->...E,..."); };
    op.gradient = [](const Node& node, absl::Span<const Tensor> inputs,
                     absl::Span<const Tensor> outputs, absl::Span<const Tensor> dy,
                     std::vector<Gradient>* dx) {
      if (dy[1]) {
        Refuse(outputs[0], "l2_normalize", "no gradient flows through the length");
        return;
      }
      (*dx)[0] =
          Dense(ApplyOne(L2NormalizeGradientOp(), node.attributes, {inputs[0], outputs[1], dy[0]}));
    };
    op.cost = [](const OpCall& call) { return RowsCost(call, call.inputs[0], 3); };
    op.reference = ReferenceNormalize;
    // Random graphs have rows of zeros, whose gradients are as large as epsilon is small.
    op.cases = {{"matrix", NormAttributes{0.25}, {F32({5, 7})}},
                {"cube", NormAttributes{0.125}, {F32({3, 2, 5})}},
                {"short_rows", NormAttributes{100}, {F32({5, 7})}}};
    op.large_cases = {{"", NormAttributes{1e-12}, {Wide()}}};
    op.timing = {RowsByLength(), [](At at) {
                   return OpCase{"", NormAttributes{1e-12}, {F32({at[0], at[1]})}};
                 }};
    return op;
  }();
  return op;
}

const OpDef& L2NormalizeGradientOp() {
  static const OpDef op = [] {
    OpDef op = MakeOp("l2_normalize_gradient",
                      {{"x"}, {.name = "length", .statistic = true}, {"dy"}}, {{"dx"}});
    op.infer = [](const OpCall& call) -> absl::StatusOr<Types> {
      const char* name = "l2_normalize_gradient";
      RETURN_IF_ERROR(CheckCount(name, call, 3));
      RETURN_IF_ERROR(CheckX(name, call.inputs[0]));
      RETURN_IF_ERROR(CheckType(name, "length", Lengths(call.inputs[0]), call.inputs[1]));
      RETURN_IF_ERROR(CheckType(name, "dy", call.inputs[0], call.inputs[2]));
      return Types{call.inputs[0]};
    };
    op.rule = [](const OpCall&) { return IndexRule::Parse("...E,...,...E->...E", {{2}}); };
    op.cost = [](const OpCall& call) { return RowsCost(call, call.inputs[0], 6); };
    op.reference = ReferenceGradient;
    const TensorType x = F32({5, 7}), cube = F32({3, 2, 5});
    op.cases = {{"matrix", NormAttributes{1e-12}, {x, F32({5}), x}, 0.5, 2},
                {"cube", NormAttributes{1}, {cube, F32({3, 2}), cube}, 0.5, 2}};
    op.large_cases = {{"", NormAttributes{1e-12}, {Wide(), WideColumn(), Wide()}, 0.5, 2},
                      {"", NormAttributes{100}, {Wide(), WideColumn(), Wide()}, 0.5, 2}};
    op.timing = {RowsByLength(), [](At at) {
                   const TensorType x = F32({at[0], at[1]});
                   return OpCase{"", NormAttributes{1e-12}, {x, F32({at[0]}), x}, 0.5, 2};
                 }};
    return op;
  }();
  return op;
}

Tensor L2Normalize(Tensor x, double epsilon) {
  return ApplyOne(L2NormalizeOp(), NormAttributes{epsilon}, {x});
}

}  // namespace sluice
