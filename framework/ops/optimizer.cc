// SGD, and what puts a value into a variable. Scalars come as tensors: learning rate f32, step i32,
// factor f32 (f64 beside f64 variables, so that tests compare to rounding).
#include <cmath>
#include <utility>

#include "framework/ops/cases.h"
#include "framework/ops/inference.h"
#include "framework/ops/op_defs.h"
#include "framework/ops/ops.h"
#include "framework/ops/reference.h"
#include "framework/ops/update.h"

namespace sluice {
namespace {

constexpr bool kUpdates = true, kVariadic = true;

// variable, gradient.., factor, learning rate, step, momentum or nothing.
absl::StatusOr<Types> InferSgd(absl::string_view op, const OpCall& call, size_t gradients) {
  const size_t least = 4 + gradients;
  if (call.inputs.size() != least && call.inputs.size() != least + 1) {
    return Mismatch(op, "expected ", least, " inputs, or one more for momentum, got ",
                    call.inputs.size());
  }
  const TensorType& variable = call.inputs[0];
  RETURN_IF_ERROR(CheckFloat(op, "variable", variable));
  RETURN_IF_ERROR(CheckGradient(op, variable, call.inputs.subspan(1, gradients)));
  RETURN_IF_ERROR(CheckStatistic(op, "factor", call.inputs[1 + gradients]));
  RETURN_IF_ERROR(CheckScalar(op, "learning_rate", DType::kF32, call.inputs[2 + gradients]));
  RETURN_IF_ERROR(CheckScalar(op, "step", DType::kI32, call.inputs[3 + gradients]));
  const SgdAttributes& a = std::get<SgdAttributes>(call.attributes);
  if (a.nesterov && (a.momentum == 0 || a.dampening != 0)) {
    return Mismatch(op, "expected with nesterov a momentum and no dampening, got ", a.momentum,
                    " and ", a.dampening);
  }
  if (call.inputs.size() > least) {
    RETURN_IF_ERROR(CheckType(op, "momentum", variable, call.inputs[least]));
  } else if (a.momentum != 0) {
    return Mismatch(op, "expected a state for a momentum of ", a.momentum, ", got none");
  }
  return Types();
}

// The update of one element; `momentum` null where there is none.
struct SgdStep {
  SgdAttributes attributes;
  double factor, learning_rate, step;
  void operator()(double gradient, double* variable, double* momentum) const {
    double g = factor * gradient + attributes.weight_decay * *variable;
    if (momentum != nullptr) {
      // The first gradient is all that the momentum has.
      const double share = step > 1 ? 1 - attributes.dampening : 1;
      const double kept = *momentum = attributes.momentum * *momentum + share * g;
      g = attributes.nesterov ? g + attributes.momentum * kept : kept;
    }
    *variable -= learning_rate * g;
  }
};

SgdStep SgdStepOf(const ReferenceCall& call, size_t factor) {
  return {std::get<SgdAttributes>(call.attributes), ScalarOf(call.inputs[factor]),
          ScalarOf(call.inputs[factor + 1]), ScalarOf(call.inputs[factor + 2])};
}
absl::Status ReferenceSgd(const ReferenceCall& call) {
  const SgdStep step = SgdStepOf(call, 2);
  const bool has_momentum = call.inputs.size() > 5;
  std::vector<double>& variable = NewValue(call);
  for (size_t i = 0; i < variable.size(); ++i) {
    step(call.inputs[1].array.values[i], &variable[i],
         has_momentum ? &call.inputs[5].array.values[i] : nullptr);
  }
  return absl::OkStatus();
}

absl::Status ReferenceSgdSparse(const ReferenceCall& call) {
  const SgdStep step = SgdStepOf(call, 3);
  const bool has_momentum = call.inputs.size() > 6;
  return UpdateRows("sgd_sparse", call, 1, [&](std::vector<double>* table) {
    return ForEachRowElement("sgd_sparse", call.inputs[0], call.inputs[1], call.inputs[2],
                             [&](double gradient, int64_t i) {
                               step(gradient, &(*table)[i],
                                    has_momentum ? &call.inputs[6].array.values[i] : nullptr);
                             });
  });
}

// Of rows named more than once the last counts; an update gives the same for all of them.
absl::Status ReferenceAssignSparse(const ReferenceCall& call) {
  ShardArray& table = call.inputs[0];
  const ShardArray &ids = call.inputs[1], &rows = call.inputs[2];
  ASSIGN_OR_RETURN(const SortedRows sorted, RowsOf("assign_sparse", table, ids.array));
  const int64_t width = RowLength(table.array);
  ForEachRow(table, sorted, [&](int64_t row, int64_t place) {
    if (place < 0) return;
    for (int64_t e = 0; e < width; ++e) {
      table.array.values[place + e] = rows.array.values[row * width + e];
    }
  });
  return absl::OkStatus();
}

}  // namespace

const OpDef& SgdOp() {
  static const OpDef op = [] {
    OpDef op;
    op.name = "sgd";
    op.inputs = {{"variable", kUpdates}, {"gradient"}, {"factor"},
                 {"learning_rate"},      {"step"},     {"momentum", kUpdates, kVariadic}};
    op.attributes = SgdAttributes();
    op.infer = [](const OpCall& call) { return InferSgd("sgd", call, 1); };
    op.rule = [](const OpCall& call) {
      return IndexRule::Parse(call.inputs.size() > 5 ? "...,...,,,,...->" : "...,...,,,->");
    };
    op.cost = [](const OpCall& call) { return ElementwiseCost(call, 6); };
    op.reference = ReferenceSgd;
    op.joins = true;
    const TensorType w = F32({5, 3}), s = F32({}), step = I32({});
    op.cases = {{"momentum", SgdAttributes{0.9, 0.1}, {w, w, s, s, step, w}},
                {"nesterov", SgdAttributes{0.9, 0.1, true}, {w, w, s, s, step, w}},
                {"dampening", SgdAttributes{0.9, 0.1, false, 0.75}, {w, w, s, s, step, w}, 1, 3},
                {"plain", SgdAttributes{0, 0}, {w, w, s, s, step}}};
    op.large_cases = {{"", SgdAttributes{0.9, 0.1}, {Wide(), Wide(), s, s, step, Wide()}},
                      {"", SgdAttributes{0.9, 0.1, true}, {Wide(), Wide(), s, s, step, Wide()}}};
    op.timing = NotTimed(kMovesBytes);
    return op;
  }();
  return op;
}

const OpDef& SgdSparseOp() {
  static const OpDef op = [] {
    OpDef op;
    op.name = "sgd_sparse";
    op.inputs = {{"variable", kUpdates},
                 {"sorted_ids"},
                 {"values"},
                 {"factor"},
                 {"learning_rate"},
                 {"step"},
                 {"momentum", kUpdates, kVariadic}};
    op.attributes = SgdAttributes();
    op.infer = [](const OpCall& call) { return InferSgd("sgd_sparse", call, 2); };
    op.signatures = [](const OpCall& call, int64_t shards) {
      return RowsSignatures(call, shards, 1);
    };
    op.cost = [](const OpCall& call) {
      return Cost{6 * call.inputs[2].shape.NumElements(), 5 * BytesOf(call.inputs.subspan(1, 2)),
                  3 * BytesOf(call.inputs.subspan(1, 2)) + 8192};
    };
    op.reference = ReferenceSgdSparse;
    const TensorType w = F32({7, 3}), ids = I32({6, 2}), values = F32({2, 3, 3});
    const TensorType g = F32({3, 5, 2}), s = F32({}), step = I32({});
    op.cases = {{"momentum", SgdAttributes{0.9, 0.1}, {w, ids, values, s, s, step, w}, 0, 4},
                {"nesterov", SgdAttributes{0.9, 0.1, true}, {w, ids, values, s, s, step, w}, 0, 4},
                {"plain", SgdAttributes{0, 0}, {w, ids, values, s, s, step}, 0, 4},
                {"groups",
                 SgdAttributes{0.9, 0.1},
                 {g, I32({3, 4, 2}), F32({3, 4, 2}), s, s, step, g},
                 0,
                 4}};
    op.large_cases = {
        {"",
         SgdAttributes{0.9, 0.1},
         {WideTable(), I32({99, 2}), F32({99, 67}), s, s, step, WideTable()},
         0,
         3},
        {"",
         SgdAttributes{0.9, 0.1},
         {F32({2603, 37}), I32({9001, 2}), F32({9001, 37}), s, s, step, F32({2603, 37})},
         0,
         2602}};
    op.timing = NotTimed(kMovesBytes);
    return op;
  }();
  return op;
}

const OpDef& SgdValueOp() {
  static const OpDef op = [] {
    OpDef op = ValueForm(SgdOp());
    op.infer = [](const OpCall& call) {
      return InferValue("sgd_value", call, 6, 1, InferSgd("sgd_value", call, 1));
    };
    op.rule = [](const OpCall&) { return IndexRule::Parse("...,...,,,,...->..."); };
    return op;
  }();
  return op;
}

const OpDef& SgdSparseValueOp() {
  static const OpDef op = [] {
    OpDef op = ValueForm(SgdSparseOp());
    op.infer = [](const OpCall& call) {
      return InferValue("sgd_sparse_value", call, 7, 2, InferSgd("sgd_sparse_value", call, 2));
    };
    return op;
  }();
  return op;
}

const OpDef& AssignOp() {
  static const OpDef op = [] {
    OpDef op;
    op.name = "assign";
    op.inputs = {{"variable", kUpdates}, {"value"}};
    op.attributes = NoAttributes();
    op.infer = [](const OpCall& call) -> absl::StatusOr<Types> {
      RETURN_IF_ERROR(CheckCount("assign", call, 2));
      RETURN_IF_ERROR(CheckType("assign", "value", call.inputs[0], call.inputs[1]));
      return Types();
    };
    op.rule = [](const OpCall&) { return IndexRule::Parse("...,...->"); };
    op.cost = [](const OpCall& call) { return ElementwiseCost(call, 0); };
    op.reference = [](const ReferenceCall& call) {
      call.inputs[0].array.values = call.inputs[1].array.values;
      return absl::OkStatus();
    };
    op.cases = {{"matrix", NoAttributes(), {F32({5, 3}), F32({5, 3})}}};
    op.large_cases = {{"", NoAttributes(), {Wide(), Wide()}}};
    op.timing = NotTimed(kMovesBytes);
    return op;
  }();
  return op;
}

const OpDef& AssignSparseOp() {
  static const OpDef op = [] {
    OpDef op;
    op.name = "assign_sparse";
    op.inputs = {{"variable", kUpdates}, {"sorted_ids"}, {"rows"}};
    op.attributes = NoAttributes();
    op.infer = [](const OpCall& call) -> absl::StatusOr<Types> {
      RETURN_IF_ERROR(CheckCount("assign_sparse", call, 3));
      RETURN_IF_ERROR(CheckGradient("assign_sparse", call.inputs[0], call.inputs.subspan(1, 2)));
      return Types();
    };
    op.signatures = [](const OpCall& call, int64_t shards) {
      return RowsSignatures(call, shards, 1);
    };
    op.cost = [](const OpCall& call) {
      return Cost{0, 2 * BytesOf(call.inputs.subspan(1, 2)), SortScratch(call.inputs[1])};
    };
    op.reference = ReferenceAssignSparse;
    op.cases = {{"table", NoAttributes(), {F32({7, 3}), I32({6, 2}), F32({2, 3, 3})}, 0, 4},
                {"groups", NoAttributes(), {F32({3, 5, 2}), I32({3, 4, 2}), F32({3, 4, 2})}, 0, 4}};
    op.large_cases = {{"", NoAttributes(), {F32({131, 67}), I32({99, 2}), F32({99, 67})}, 0, 3}};
    op.timing = NotTimed(kMovesBytes);
    return op;
  }();
  return op;
}

namespace {

std::vector<Tensor> SgdInputs(Tensor variable, Tensor momentum, const Gradient& gradient,
                              Tensor factor, Tensor learning_rate, Tensor step) {
  std::vector<Tensor> inputs = {variable};
  inputs.insert(inputs.end(), gradient.tensors.begin(), gradient.tensors.end());
  inputs.push_back(FactorOr1(variable, factor));
  inputs.push_back(learning_rate);
  inputs.push_back(step);
  if (momentum) inputs.push_back(momentum);
  return inputs;
}

}  // namespace

void SgdUpdate(Tensor variable, Tensor momentum, const Gradient& gradient, Tensor factor,
               Tensor learning_rate, Tensor step, const SgdAttributes& attributes) {
  Apply(gradient.kind == Gradient::kSparse ? SgdSparseOp() : SgdOp(), attributes,
        SgdInputs(variable, momentum, gradient, factor, learning_rate, step));
}

Tensor SgdValue(Tensor variable, Tensor momentum, const Gradient& gradient, Tensor factor,
                Tensor learning_rate, Tensor step, const SgdAttributes& attributes) {
  return ApplyOne(gradient.kind == Gradient::kSparse ? SgdSparseValueOp() : SgdValueOp(),
                  attributes, SgdInputs(variable, momentum, gradient, factor, learning_rate, step));
}

void Assign(Tensor variable, const Gradient& gradient, Tensor value) {
  if (gradient.kind == Gradient::kSparse) {
    Apply(AssignSparseOp(), NoAttributes(), {variable, gradient.tensors[0], value});
  } else {
    Apply(AssignOp(), NoAttributes(), {variable, value});
  }
}

}  // namespace sluice
