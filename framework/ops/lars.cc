// The update of LARS (You et al. 2017, algorithm 1). The learning rate is part of the momentum, as
// in the paper, so that a ratio that changes from step to step weighs the gradient it was made for.
// The ratio is an operand: it comes of norms of whole tensors, whose shards are summed as for any
// norm.
//
// The form "..._value" is for a state that lies otherwise than its variable, as in optimizer.cc.
#include <utility>

#include "framework/ops/cases.h"
#include "framework/ops/inference.h"
#include "framework/ops/op_defs.h"
#include "framework/ops/ops.h"
#include "framework/ops/reference.h"
#include "framework/ops/update.h"

namespace sluice {
namespace {

absl::Status CheckLars(absl::string_view op, const OpCall& call) {
  RETURN_IF_ERROR(CheckCount(op, call, 6));
  const TensorType& variable = call.inputs[0];
  RETURN_IF_ERROR(CheckFloat(op, "variable", variable));
  RETURN_IF_ERROR(CheckType(op, "momentum", variable, call.inputs[1]));
  RETURN_IF_ERROR(CheckType(op, "the gradient", variable, call.inputs[2]));
  RETURN_IF_ERROR(CheckStatistic(op, "factor", call.inputs[3]));
  RETURN_IF_ERROR(CheckScalar(op, "learning_rate", DType::kF32, call.inputs[4]));
  return CheckStatistic(op, "ratio", call.inputs[5]);
}

absl::Status ReferenceLars(const ReferenceCall& call) {
  const LarsAttributes& a = std::get<LarsAttributes>(call.attributes);
  const auto scalar = [&](int i) { return call.inputs[i].array.values[0]; };
  const double factor = scalar(3), rate = scalar(4) * scalar(5);
  const std::vector<double>& gradient = call.inputs[2].array.values;
  std::vector<double>& momentum = call.inputs[1].array.values;
  std::vector<double>& variable = NewValue(call);
  for (size_t i = 0; i < variable.size(); ++i) {
    const double g = factor * gradient[i] + a.weight_decay * variable[i];
    momentum[i] = a.momentum * momentum[i] + rate * g;
    variable[i] -= momentum[i];
  }
  return absl::OkStatus();
}

OpDef MakeLars(const char* name, bool in_place) {
  OpDef op;
  op.name = name;
  op.inputs = {{"variable", in_place}, {"momentum", true}, {"gradient"}, {"factor"},
               {"learning_rate"},      {"ratio"}};
  op.attributes = LarsAttributes();
  op.joins = in_place;
  op.cost = [](const OpCall& call) { return ElementwiseCost(call, 6); };
  op.reference = ReferenceLars;
  const TensorType w = F32({5, 3}), s = F32({});
  op.cases = {{"matrix", LarsAttributes{0.9, 0.1}, {w, w, w, s, s, s}}};
  op.large_cases = {{"", LarsAttributes{0.9, 0.1}, {Wide(), Wide(), Wide(), s, s, s}}};
  op.timing = NotTimed(kMovesBytes);
  return op;
}

std::vector<Tensor> LarsInputs(Tensor variable, Tensor momentum, const Gradient& gradient,
                               Tensor factor, Tensor learning_rate, Tensor ratio) {
  if (gradient.kind != Gradient::kDense) {
    Refuse(variable, "lars", "expected a dense gradient, got rows of a table");
    return std::vector<Tensor>(6);
  }
  return {variable, momentum, gradient.tensors[0], factor, learning_rate, ratio};
}

}  // namespace

const OpDef& LarsOp() {
  static const OpDef op = [] {
    OpDef op = MakeLars("lars", /*in_place=*/true);
    op.infer = [](const OpCall& call) -> absl::StatusOr<Types> {
      RETURN_IF_ERROR(CheckLars("lars", call));
      return Types();
    };
    op.rule = [](const OpCall&) { return IndexRule::Parse("...,...,...,,,->"); };
    return op;
  }();
  return op;
}

const OpDef& LarsValueOp() {
  static const OpDef op = [] {
    OpDef op = MakeLars("lars_value", /*in_place=*/false);
    op.outputs = {{"value"}};
    op.infer = [](const OpCall& call) -> absl::StatusOr<Types> {
      RETURN_IF_ERROR(CheckLars("lars_value", call));
      return Types{call.inputs[2]};
    };
    op.rule = [](const OpCall&) { return IndexRule::Parse("...,...,...,,,->..."); };
    return op;
  }();
  return op;
}

void LarsUpdate(Tensor variable, Tensor momentum, const Gradient& gradient, Tensor factor,
                Tensor learning_rate, Tensor ratio, const LarsAttributes& attributes) {
  Apply(LarsOp(), attributes,
        LarsInputs(variable, momentum, gradient, factor, learning_rate, ratio));
}

Tensor LarsValue(Tensor variable, Tensor momentum, const Gradient& gradient, Tensor factor,
                 Tensor learning_rate, Tensor ratio, const LarsAttributes& attributes) {
  return ApplyOne(LarsValueOp(), attributes,
                  LarsInputs(variable, momentum, gradient, factor, learning_rate, ratio));
}

}  // namespace sluice
