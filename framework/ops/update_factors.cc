// What gradients are multiplied by before an update, computed on the device from sums of squares.
#include <cmath>

#include "framework/ops/cases.h"
#include "framework/ops/inference.h"
#include "framework/ops/op_defs.h"
#include "framework/ops/ops.h"
#include "framework/ops/reference.h"
#include "framework/ops/update.h"

namespace sluice {

const OpDef& ClipFactorOp() {
  static const OpDef op = [] {
    OpDef op;
    op.name = "clip_factor";
    op.inputs = {{"sum_squares"}};
    op.outputs = {{"factor"}};
    op.attributes = ClipAttributes();
    op.infer = [](const OpCall& call) -> absl::StatusOr<Types> {
      RETURN_IF_ERROR(CheckCount("clip_factor", call, 1));
      RETURN_IF_ERROR(CheckStatistic("clip_factor", "sum_squares", call.inputs[0]));
      return Types{call.inputs[0]};
    };
    op.rule = [](const OpCall&) { return IndexRule::Parse("->"); };
    op.cost = [](const OpCall& call) { return ElementwiseCost(call, 4); };
    op.reference = [](const ReferenceCall& call) {
      const double max_norm = std::get<ClipAttributes>(call.attributes).max_norm;
      return ReferenceMap(call, [max_norm](double sum) {
        const double factor = max_norm / (std::sqrt(sum) + 1e-6);
        return factor > 1 ? 1 : factor;  // NaN stays NaN
      });
    };
    op.cases = {{"scalar", ClipAttributes{0.5}, {F32({})}, 0.1, 4},
                {"below", ClipAttributes{5}, {F32({})}, 0.1, 4}};
    op.large_cases = {{"", ClipAttributes{0.5}, {F32({})}, 0.1, 4}};
    op.timing = NotTimed(kFewScalars);
    return op;
  }();
  return op;
}

const OpDef& TrustRatioOp() {
  static const OpDef op = [] {
    OpDef op;
    op.name = "trust_ratio";
    op.inputs = {{"variable_sum_squares"}, {"gradient_sum_squares"}, {"factor"}};
    op.outputs = {{"ratio"}};
    op.attributes = LarsAttributes();
    op.infer = [](const OpCall& call) -> absl::StatusOr<Types> {
      RETURN_IF_ERROR(CheckCount("trust_ratio", call, 3));
      RETURN_IF_ERROR(CheckStatistic("trust_ratio", "variable_sum_squares", call.inputs[0]));
      RETURN_IF_ERROR(
          CheckType("trust_ratio", "gradient_sum_squares", call.inputs[0], call.inputs[1]));
      RETURN_IF_ERROR(CheckStatistic("trust_ratio", "factor", call.inputs[2]));
      return Types{call.inputs[0]};
    };
    op.rule = [](const OpCall&) { return IndexRule::Parse(",,->"); };
    op.cost = [](const OpCall& call) { return ElementwiseCost(call, 10); };
    op.reference = [](const ReferenceCall& call) {
      const LarsAttributes& a = std::get<LarsAttributes>(call.attributes);
      const double length = std::sqrt(call.inputs[0].array.values[0]);
      const double gradient =
          call.inputs[2].array.values[0] * std::sqrt(call.inputs[1].array.values[0]);
      const double ratio =
          a.coefficient * length / (gradient + a.weight_decay * length + a.epsilon);
      call.outputs[0].array.values[0] = length == 0 || gradient == 0 ? 1 : ratio;
      return absl::OkStatus();
    };
    const std::vector<TensorType> scalars = Equal(3, F32({}));
    op.cases = {{"scalars", LarsAttributes{0.9, 0.1}, scalars, 0.5, 4}};
    op.large_cases = {{"", LarsAttributes{0.9, 0.1}, scalars, 0.5, 4},
                      {"", LarsAttributes{0.9, 0.1}, scalars, 0, 0}};
    op.timing = NotTimed(kFewScalars);
    return op;
  }();
  return op;
}

Tensor ClipFactor(Tensor sum_squares, double max_norm) {
  return ApplyOne(ClipFactorOp(), ClipAttributes{max_norm}, {sum_squares});
}

Tensor TrustRatio(Tensor variable_sum_squares, Tensor gradient_sum_squares, Tensor factor,
                  const LarsAttributes& attributes) {
  return ApplyOne(TrustRatioOp(), attributes, {variable_sum_squares, gradient_sum_squares, factor});
}

}  // namespace sluice
