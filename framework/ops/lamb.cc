// LAMB (You et al. 2019, algorithm 2) in three ops: the direction that AdamW would go, for a rate
// of one, here; the ratio of the lengths of variable and direction, which is LARS's; and the update
// of plain SGD along it. As an op of its own the direction has a sum of squares like any tensor's,
// so that its length is the whole tensor's however the state is split.
#include <cmath>

#include "framework/ops/cases.h"
#include "framework/ops/inference.h"
#include "framework/ops/op_defs.h"
#include "framework/ops/ops.h"
#include "framework/ops/reference.h"
#include "framework/ops/update.h"

namespace sluice {
namespace {

absl::StatusOr<Types> InferAdamDirection(const OpCall& call) {
  constexpr char kOp[] = "adam_direction";
  RETURN_IF_ERROR(CheckCount(kOp, call, 6));
  const TensorType& variable = call.inputs[0];
  RETURN_IF_ERROR(CheckFloat(kOp, "variable", variable));
  RETURN_IF_ERROR(CheckType(kOp, "m", variable, call.inputs[1]));
  RETURN_IF_ERROR(CheckType(kOp, "v", variable, call.inputs[2]));
  RETURN_IF_ERROR(CheckType(kOp, "the gradient", variable, call.inputs[3]));
  RETURN_IF_ERROR(CheckStatistic(kOp, "factor", call.inputs[4]));
  RETURN_IF_ERROR(CheckScalar(kOp, "step", DType::kI32, call.inputs[5]));
  return Types{variable};
}

absl::Status ReferenceAdamDirection(const ReferenceCall& call) {
  const AdamWAttributes& a = std::get<AdamWAttributes>(call.attributes);
  const double factor = call.inputs[4].array.values[0], step = call.inputs[5].array.values[0];
  const double correction1 = a.bias_correction ? 1 - std::pow(a.beta1, step) : 1;
  const double correction2 = a.bias_correction ? 1 - std::pow(a.beta2, step) : 1;
  const std::vector<double>& variable = call.inputs[0].array.values;
  for (size_t i = 0; i < variable.size(); ++i) {
    const double g = factor * call.inputs[3].array.values[i];
    double& m = call.inputs[1].array.values[i];
    double& v = call.inputs[2].array.values[i];
    m = a.beta1 * m + (1 - a.beta1) * g;
    v = a.beta2 * v + (1 - a.beta2) * g * g;
    call.outputs[0].array.values[i] =
        m / correction1 / (std::sqrt(v / correction2) + a.epsilon) + a.weight_decay * variable[i];
  }
  return absl::OkStatus();
}

}  // namespace

const OpDef& AdamDirectionOp() {
  static const OpDef op = [] {
    OpDef op;
    op.name = "adam_direction";
    op.inputs = {{"variable"}, {"m", true}, {"v", true}, {"gradient"}, {"factor"}, {"step"}};
    op.outputs = {{"direction"}};
    op.attributes = AdamWAttributes();
    op.infer = InferAdamDirection;
    op.rule = [](const OpCall&) { return IndexRule::Parse("...,...,...,...,,->..."); };
    op.cost = [](const OpCall& call) { return ElementwiseCost(call, 15); };
    op.reference = ReferenceAdamDirection;
    const AdamWAttributes attributes = {0.9, 0.95, 1e-8, 0.1};
    AdamWAttributes uncorrected = attributes;
    uncorrected.bias_correction = false;
    const TensorType w = F32({5, 3}), s = F32({}), step = I32({});
    op.cases = {{"matrix", attributes, {w, w, w, w, s, step}, 1, 3},
                {"uncorrected", uncorrected, {w, w, w, w, s, step}, 1, 3}};
    op.large_cases = {{"", attributes, {Wide(), Wide(), Wide(), Wide(), s, step}, 1, 3}};
    op.timing = NotTimed(kMovesBytes);
    return op;
  }();
  return op;
}

Tensor AdamDirection(Tensor variable, Tensor m, Tensor v, Tensor gradient, Tensor factor,
                     Tensor step, const AdamWAttributes& attributes) {
  return ApplyOne(AdamDirectionOp(), attributes, {variable, m, v, gradient, factor, step});
}

}  // namespace sluice
