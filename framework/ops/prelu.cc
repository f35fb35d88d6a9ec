// PReLU: below zero each channel, the last dimension, has a slope of its own. What is learned of
// the slope is a sum over rows, an op of its own as the parameters' gradients of layer norm are.
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
  return Mismatch(op, "expected x of [.., channels], got ", TypeText(x));
}

TensorType PerChannel(const TensorType& x) {
  return {StatisticsType(x.dtype), {x.shape[x.shape.rank() - 1]}};
}

OpDef MakeOp(const char* name, std::vector<Port> inputs, const char* output) {
  OpDef op;
  op.name = name;
  op.inputs = std::move(inputs);
  op.outputs = {{output}};
  op.computes_in = ComputesIn::kEither;
  return op;
}

Port Slope() { return {.name = "slope", .statistic = true}; }

void PreluGradientOf(const Node&, absl::Span<const Tensor> inputs, absl::Span<const Tensor>,
                     absl::Span<const Tensor> dy, std::vector<Gradient>* dx) {
  (*dx)[0] = Dense(ApplyOne(PreluGradientOp(), NoAttributes(), {inputs[0], inputs[1], dy[0]}));
  (*dx)[1] = Dense(ApplyOne(PreluSlopeGradientOp(), NoAttributes(), {inputs[0], dy[0]}));
}

// y = fn(x, slope, dy), dy being 0 where there is none.
template <typename F>
absl::Status ReferenceByChannel(const ReferenceCall& call, F&& fn) {
  const std::vector<double>& x = call.inputs[0].array.values;
  const int64_t width = RowLength(call.inputs[0].array);
  for (size_t i = 0; i < x.size(); ++i) {
    const double slope = call.inputs[1].array.values[static_cast<int64_t>(i) % width];
    const double dy = call.inputs.size() > 2 ? call.inputs[2].array.values[i] : 0;
    call.outputs[0].array.values[i] = fn(x[i], slope, dy);
  }
  return absl::OkStatus();
}

}  // namespace

const OpDef& PreluOp() {
  static const OpDef op = [] {
    OpDef op = MakeOp("prelu", {{"x"}, Slope()}, "y");
    op.infer = [](const OpCall& call) -> absl::StatusOr<Types> {
      RETURN_IF_ERROR(CheckCount("prelu", call, 2));
      RETURN_IF_ERROR(CheckX("prelu", call.inputs[0]));
      RETURN_IF_ERROR(CheckType("prelu", "slope", PerChannel(call.inputs[0]), call.inputs[1]));
      return Types{call.inputs[0]};
    };
    op.rule = [](const OpCall&) { return IndexRule::Parse("...e,e->...e"); };
    op.gradient = PreluGradientOf;
    op.cost = [](const OpCall& call) { return RowsCost(call, call.inputs[0], 2); };
    op.reference = [](const ReferenceCall& call) {
      return ReferenceByChannel(
          call, [](double x, double slope, double) { return x > 0 ? x : slope * x; });
    };
    op.cases = {{"matrix", NoAttributes(), {F32({5, 7}), F32({7})}},
                {"cube", NoAttributes(), {F32({3, 2, 5}), F32({5})}}};
    op.large_cases = {{"", NoAttributes(), {Wide(), WideRow()}}};
    op.timing = {RowsByLength(), [](At at) {
                   return OpCase{"", NoAttributes(), {F32({at[0], at[1]}), F32({at[1]})}};
                 }};
    return op;
  }();
  return op;
}

const OpDef& PreluGradientOp() {
  static const OpDef op = [] {
    OpDef op = MakeOp("prelu_gradient", {{"x"}, Slope(), {"dy"}}, "dx");
    op.infer = [](const OpCall& call) -> absl::StatusOr<Types> {
      const char* name = "prelu_gradient";
      RETURN_IF_ERROR(CheckCount(name, call, 3));
      RETURN_IF_ERROR(CheckX(name, call.inputs[0]));
      RETURN_IF_ERROR(CheckType(name, "slope", PerChannel(call.inputs[0]), call.inputs[1]));
      RETURN_IF_ERROR(CheckType(name, "dy", call.inputs[0], call.inputs[2]));
      return Types{call.inputs[0]};
    };
    op.rule = [](const OpCall&) { return IndexRule::Parse("...e,e,...e->...e", {{2}}); };
    op.cost = [](const OpCall& call) { return RowsCost(call, call.inputs[0], 2); };
    op.reference = [](const ReferenceCall& call) {
      return ReferenceByChannel(
          call, [](double x, double slope, double dy) { return x > 0 ? dy : slope * dy; });
    };
    op.cases = {{"matrix", NoAttributes(), {F32({5, 7}), F32({7}), F32({5, 7})}},
                {"cube", NoAttributes(), {F32({3, 2, 5}), F32({5}), F32({3, 2, 5})}}};
    op.large_cases = {{"", NoAttributes(), {Wide(), WideRow(), Wide()}}};
    op.timing = {RowsByLength(), [](At at) {
                   const TensorType x = F32({at[0], at[1]});
                   return OpCase{"", NoAttributes(), {x, F32({at[1]}), x}};
                 }};
    return op;
  }();
  return op;
}

const OpDef& PreluSlopeGradientOp() {
  static const OpDef op = [] {
    OpDef op = MakeOp("prelu_slope_gradient", {{"x"}, {"dy"}}, "dslope");
    op.infer = [](const OpCall& call) -> absl::StatusOr<Types> {
      const char* name = "prelu_slope_gradient";
      RETURN_IF_ERROR(CheckCount(name, call, 2));
      RETURN_IF_ERROR(CheckX(name, call.inputs[0]));
      RETURN_IF_ERROR(CheckType(name, "dy", call.inputs[0], call.inputs[1]));
      return Types{PerChannel(call.inputs[0])};
    };
    op.rule = [](const OpCall&) { return IndexRule::Parse("...e,...e->e", {{1}}); };
    op.cost = [](const OpCall& call) {
      const int64_t channels = call.outputs[0].shape[0];
      const int64_t rows = call.inputs[0].shape.NumElements() / std::max<int64_t>(channels, 1);
      return RowsCost(call, call.inputs[0], 3, BlockSumsScratch(1, rows, channels, 1));
    };
    op.reference = [](const ReferenceCall& call) {
      const std::vector<double>& x = call.inputs[0].array.values;
      const int64_t width = RowLength(call.inputs[0].array);
      for (size_t i = 0; i < x.size(); ++i) {
        if (x[i] > 0) continue;
        call.outputs[0].array.values[static_cast<int64_t>(i) % width] +=
            x[i] * call.inputs[1].array.values[i];
      }
      return absl::OkStatus();
    };
    op.cases = {{"matrix", NoAttributes(), {F32({5, 7}), F32({5, 7})}},
                {"cube", NoAttributes(), {F32({3, 2, 5}), F32({3, 2, 5})}}};
    op.large_cases = {{"", NoAttributes(), {Wide(), Wide()}},
                      {"", NoAttributes(), Equal(2, F32({2207, 16}))}};
    op.timing = {RowsByLength(), [](At at) {
                   return OpCase{"", NoAttributes(), Equal(2, F32({at[0], at[1]}))};
                 }};
    return op;
  }();
  return op;
}

Tensor Prelu(Tensor x, Tensor slope) { return ApplyOne(PreluOp(), NoAttributes(), {x, slope}); }

}  // namespace sluice
