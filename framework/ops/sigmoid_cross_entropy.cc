// Cross entropy of a probability that is the sigmoid of a logit, from the logit itself:
//   max(x, 0) - x label + log(1 + exp(-|x|)),
// which no size of x makes infinite. Its gradient is (sigmoid(x) - label) dloss.
#include <algorithm>
#include <cmath>

#include "framework/ops/cases.h"
#include "framework/ops/inference.h"
#include "framework/ops/op_defs.h"
#include "framework/ops/ops.h"
#include "framework/ops/reference.h"

namespace sluice {
namespace {

absl::StatusOr<Types> InferAlike(absl::string_view op, const OpCall& call, size_t count) {
  RETURN_IF_ERROR(CheckCount(op, call, count));
  RETURN_IF_ERROR(CheckFloat(op, "logits", call.inputs[0]));
  for (const TensorType& type : call.inputs) {
    RETURN_IF_ERROR(CheckType(op, "every operand", call.inputs[0], type));
  }
  return Types{call.inputs[0]};
}

std::vector<OpCase> CasesOf(size_t count) {
  return {{"vector", NoAttributes(), Equal(count, F32({5}))},
          {"matrix", NoAttributes(), Equal(count, F32({5, 3}))}};
}

}  // namespace

const OpDef& SigmoidCrossEntropyOp() {
  static const OpDef op = [] {
    OpDef op;
    op.name = "sigmoid_cross_entropy";
    op.inputs = {{"logits"}, {"labels"}};
    op.outputs = {{"loss"}};
    op.infer = [](const OpCall& call) { return InferAlike("sigmoid_cross_entropy", call, 2); };
    op.rule = [](const OpCall&) { return IndexRule::Parse("...,...->..."); };
    op.gradient = [](const Node&, absl::Span<const Tensor> inputs, absl::Span<const Tensor>,
                     absl::Span<const Tensor> dy, std::vector<Gradient>* dx) {
      (*dx)[0] = Dense(
          ApplyOne(SigmoidCrossEntropyGradientOp(), NoAttributes(), {inputs[0], inputs[1], dy[0]}));
      (*dx)[1] = Dense(Scale(inputs[0], -1) * dy[0]);
    };
    op.cost = [](const OpCall& call) { return ElementwiseCost(call, 30); };
    op.reference = [](const ReferenceCall& call) {
      return ReferenceMap2(call, [](double x, double label) {
        return std::max(x, 0.0) - x * label + std::log1p(std::exp(-std::abs(x)));
      });
    };
    op.cases = CasesOf(2);
    op.large_cases = {{"", NoAttributes(), Equal(2, Wide()), -30, 30}};
    op.timing = TimedByElements<2>();
    return op;
  }();
  return op;
}

const OpDef& SigmoidCrossEntropyGradientOp() {
  static const OpDef op = [] {
    OpDef op;
    op.name = "sigmoid_cross_entropy_gradient";
    op.inputs = {{"logits"}, {"labels"}, {"dloss"}};
    op.outputs = {{"dlogits"}};
    op.infer = [](const OpCall& call) {
      return InferAlike("sigmoid_cross_entropy_gradient", call, 3);
    };
    op.rule = [](const OpCall&) { return IndexRule::Parse("...,...,...->...", {{2}}); };
    op.cost = [](const OpCall& call) { return ElementwiseCost(call, 20); };
    op.reference = [](const ReferenceCall& call) {
      const std::vector<double>& x = call.inputs[0].array.values;
      const std::vector<double>& label = call.inputs[1].array.values;
      const std::vector<double>& dloss = call.inputs[2].array.values;
      for (size_t i = 0; i < x.size(); ++i) {
        call.outputs[0].array.values[i] = (1 / (1 + std::exp(-x[i])) - label[i]) * dloss[i];
      }
      return absl::OkStatus();
    };
    op.cases = CasesOf(3);
    op.large_cases = {{"", NoAttributes(), Equal(3, Wide()), -30, 30}};
    op.timing = TimedByElements<3>();
    return op;
  }();
  return op;
}

Tensor SigmoidCrossEntropy(Tensor logits, Tensor labels) {
  return ApplyOne(SigmoidCrossEntropyOp(), NoAttributes(), {logits, labels});
}

}  // namespace sluice
