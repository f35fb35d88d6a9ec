// Updates. Scalars come as tensors: learning rate f32, step i32, factor f32 (f64 beside f64
// variables, so that tests compare to rounding). The rows forms touch only the rows
// named; rows named more than once are added first.
//
// An update in place has its variable and its state in one layout, as its index rule says. The
// forms
// "..._value" are for a state that lies otherwise: they change the state alone and give what the
// variable becomes (of the rows forms: each row named), laid out as the state is. `assign` puts
// that into the variable, and selection brings it there as it brings any tensor to its reader.
#include <cmath>
#include <utility>

#include "framework/ops/cases.h"
#include "framework/ops/inference.h"
#include "framework/ops/op_defs.h"
#include "framework/ops/ops.h"
#include "framework/ops/optimizer.h"
#include "framework/ops/reference.h"

namespace sluice {
namespace {

constexpr bool kUpdates = true, kVariadic = true;

// The gradient of `variable`: one dense tensor, or ids and values.
absl::Status CheckGradient(absl::string_view op, const TensorType& variable,
                           absl::Span<const TensorType> gradient) {
  if (gradient.size() == 1) return CheckType(op, "the gradient", variable, gradient[0]);
  const TensorType &ids = gradient[0], &values = gradient[1];
  RETURN_IF_ERROR(CheckTableIds(op, variable, ids));
  Shape expected = ids.shape;
  expected.Append(variable.shape[variable.shape.rank() - 1]);
  return CheckType(op, "values", {variable.dtype, expected}, values);
}

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

// variable, m, v, gradient.., factor, learning rate, step.
absl::StatusOr<Types> InferAdamW(absl::string_view op, const OpCall& call, size_t gradients) {
  RETURN_IF_ERROR(CheckCount(op, call, 6 + gradients));
  const TensorType& variable = call.inputs[0];
  RETURN_IF_ERROR(CheckFloat(op, "variable", variable));
  RETURN_IF_ERROR(CheckType(op, "m", variable, call.inputs[1]));
  RETURN_IF_ERROR(CheckType(op, "v", variable, call.inputs[2]));
  RETURN_IF_ERROR(CheckGradient(op, variable, call.inputs.subspan(3, gradients)));
  RETURN_IF_ERROR(CheckStatistic(op, "factor", call.inputs[3 + gradients]));
  RETURN_IF_ERROR(CheckScalar(op, "learning_rate", DType::kF32, call.inputs[4 + gradients]));
  RETURN_IF_ERROR(CheckScalar(op, "step", DType::kI32, call.inputs[5 + gradients]));
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

struct AdamWStep {
  AdamWStep(const AdamWAttributes& a, double factor, double learning_rate, double step)
      : a(a),
        factor(factor),
        learning_rate(learning_rate),
        correction1(a.bias_correction ? 1 - std::pow(a.beta1, step) : 1),
        correction2(a.bias_correction ? std::sqrt(1 - std::pow(a.beta2, step)) : 1) {}
  void operator()(double gradient, double* variable, double* m, double* v) const {
    const double g = factor * gradient;
    *variable *= 1 - learning_rate * a.weight_decay;
    *m = a.beta1 * *m + (1 - a.beta1) * g;
    *v = a.beta2 * *v + (1 - a.beta2) * g * g;
    *variable -= learning_rate / correction1 * *m / (std::sqrt(*v) / correction2 + a.epsilon);
  }
  AdamWAttributes a;
  double factor, learning_rate, correction1, correction2;
};

double ScalarOf(const ShardArray& shard) { return shard.array.values[0]; }

SgdStep SgdStepOf(const ReferenceCall& call, size_t factor) {
  return {std::get<SgdAttributes>(call.attributes), ScalarOf(call.inputs[factor]),
          ScalarOf(call.inputs[factor + 1]), ScalarOf(call.inputs[factor + 2])};
}
AdamWStep AdamWStepOf(const ReferenceCall& call, size_t factor) {
  return {std::get<AdamWAttributes>(call.attributes), ScalarOf(call.inputs[factor]),
          ScalarOf(call.inputs[factor + 1]), ScalarOf(call.inputs[factor + 2])};
}

// Calls update(gradient, place) for each element of the rows that the shard of a table holds.
template <typename F>
absl::Status ForEachRowElement(const char* op, const ShardArray& table, const ShardArray& ids,
                               const ShardArray& values, F&& update) {
  RETURN_IF_ERROR(CheckInRange(op, "ids", ids.array, TableShard(table).whole));
  ForEachNamedRow(table, ids.array, values.array,
                  [&](const std::vector<double>& gradient, int64_t place) {
                    for (size_t e = 0; e < gradient.size(); ++e) update(gradient[e], place + e);
                  });
  return absl::OkStatus();
}

// fn(i, place): where the shard of a table holds the row that the i-th id names; below 0, it does
// not.
template <typename F>
void ForEachId(const ShardArray& table, const Array& ids, F&& fn) {
  const TableShard shard(table);
  const int64_t count = static_cast<int64_t>(ids.values.size());
  const int64_t per_group = std::max<int64_t>(count / std::max<int64_t>(shard.groups, 1), 1);
  for (int64_t i = 0; i < count; ++i) {
    fn(i, shard.PlaceOf(i / per_group, static_cast<int64_t>(ids.values[i])));
  }
}

// Of the rows forms: runs `update` on the table or, in a form that gives the rows, on a copy, and
// gives each row named. A shard without a row gives the identity of the sum that follows.
template <typename F>
absl::Status UpdateRows(const ReferenceCall& call, size_t ids_port, F&& update) {
  ShardArray& table = call.inputs[0];
  if (call.outputs.empty()) return update(&table.array.values);
  std::vector<double> changed = table.array.values;
  RETURN_IF_ERROR(update(&changed));
  const int64_t width = RowLength(table.array);
  std::vector<double>& rows = call.outputs[0].array.values;
  ForEachId(table, call.inputs[ids_port].array, [&](int64_t i, int64_t place) {
    for (int64_t e = 0; e < width; ++e) {
      rows[i * width + e] = place >= 0 ? changed[place + e] : -0.0;
    }
  });
  return absl::OkStatus();
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
  return UpdateRows(call, 1, [&](std::vector<double>* table) {
    return ForEachRowElement("sgd_sparse", call.inputs[0], call.inputs[1], call.inputs[2],
                             [&](double gradient, int64_t i) {
                               step(gradient, &(*table)[i],
                                    has_momentum ? &call.inputs[6].array.values[i] : nullptr);
                             });
  });
}

absl::Status ReferenceAdamW(const ReferenceCall& call) {
  const AdamWStep step = AdamWStepOf(call, 4);
  std::vector<double>& variable = NewValue(call);
  for (size_t i = 0; i < variable.size(); ++i) {
    step(call.inputs[3].array.values[i], &variable[i], &call.inputs[1].array.values[i],
         &call.inputs[2].array.values[i]);
  }
  return absl::OkStatus();
}

absl::Status ReferenceAdamWSparse(const ReferenceCall& call) {
  const AdamWStep step = AdamWStepOf(call, 5);
  return UpdateRows(call, 3, [&](std::vector<double>* table) {
    return ForEachRowElement("adamw_sparse", call.inputs[0], call.inputs[3], call.inputs[4],
                             [&](double gradient, int64_t i) {
                               step(gradient, &(*table)[i], &call.inputs[1].array.values[i],
                                    &call.inputs[2].array.values[i]);
                             });
  });
}

// Of rows named more than once the last counts; an update gives the same for all of them.
absl::Status ReferenceAssignSparse(const ReferenceCall& call) {
  ShardArray& table = call.inputs[0];
  const ShardArray &ids = call.inputs[1], &rows = call.inputs[2];
  RETURN_IF_ERROR(CheckInRange("assign_sparse", "ids", ids.array, TableShard(table).whole));
  const int64_t width = RowLength(table.array);
  ForEachId(table, ids.array, [&](int64_t i, int64_t place) {
    if (place < 0) return;
    for (int64_t e = 0; e < width; ++e) {
      table.array.values[place + e] = rows.array.values[i * width + e];
    }
  });
  return absl::OkStatus();
}

// A table is split by rows, which each shard picks out for itself, by columns, or by groups, whose
// ids go with them. Splitting ids within a group would leave each shard with its own rows only.
// Rows that are given are then each one shard's.
absl::StatusOr<std::vector<Signature>> RowsSignatures(const OpCall& call, int64_t shards,
                                                      size_t ids) {
  const Shape& table = call.inputs[0].shape;
  const auto make = [&](const char* factor, int table_dim, int ids_dim, int values_dim,
                        int rows_dim) {
    std::vector<int> inputs(call.inputs.size(), kWhole);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const bool like_table = i < ids || i > ids + 1;  // or a scalar
      if (like_table && call.inputs[i].shape == table) inputs[i] = table_dim;
    }
    inputs[ids] = ids_dim;
    inputs[ids + 1] = values_dim;
    return MakeSignature(factor, inputs, std::vector<int>(call.outputs.size(), rows_dim));
  };
  std::vector<Signature> signatures = {make("", kWhole, kWhole, kWhole, kWhole)};
  if (shards < 2) return signatures;
  const int rows = table.rank() - 2, columns = table.rank() - 1;
  const int column = call.inputs[ids].shape.rank();
  if (table[columns] > 1) signatures.push_back(make("e", columns, kWhole, column, column));
  if (rows > 0 && table[0] > 1) signatures.push_back(make("g", 0, 0, 0, 0));
  if (table[rows] > 1) signatures.push_back(make("v", rows, kWhole, kWhole, kPartial));
  return signatures;
}

Tensor FactorOr1(Tensor variable, Tensor factor) {
  return factor || !variable ? factor : Fill(variable.graph(), 1, {});
}

// The form of an update that leaves its variable alone and gives what that becomes. It always has a
// state: without one nothing could lie otherwise than the variable.
OpDef ValueForm(const OpDef& in_place) {
  OpDef op = in_place;
  op.name = absl::StrCat(in_place.name, "_value");
  op.inputs[0].updates = false;
  op.inputs.back().variadic = false;
  op.outputs = {{"value"}};
  std::erase_if(op.cases, [&](const OpCase& c) { return c.inputs.size() < op.inputs.size(); });
  op.timing = NotTimed(kMovesBytes);
  return op;
}

// Inference of such a form: what it gives is of the type of the gradient, or of its rows.
absl::StatusOr<Types> InferValue(absl::string_view op, const OpCall& call, size_t inputs,
                                 size_t gradient, const absl::StatusOr<Types>& in_place) {
  RETURN_IF_ERROR(CheckCount(op, call, inputs));
  RETURN_IF_ERROR(in_place.status());
  return Types{call.inputs[gradient]};
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
                 {"ids"},
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
                  2 * BytesOf(call.inputs.subspan(1, 2)) + 4096};
    };
    op.reference = ReferenceSgdSparse;
    const TensorType w = F32({7, 3}), ids = I32({2, 3}), values = F32({2, 3, 3});
    const TensorType g = F32({3, 5, 2}), s = F32({}), step = I32({});
    op.cases = {
        {"momentum", SgdAttributes{0.9, 0.1}, {w, ids, values, s, s, step, w}, 0, 4},
        {"nesterov", SgdAttributes{0.9, 0.1, true}, {w, ids, values, s, s, step, w}, 0, 4},
        {"plain", SgdAttributes{0, 0}, {w, ids, values, s, s, step}, 0, 4},
        {"groups", SgdAttributes{0.9, 0.1}, {g, I32({3, 4}), F32({3, 4, 2}), s, s, step, g}, 0, 4}};
    op.large_cases = {{"",
                       SgdAttributes{0.9, 0.1},
                       {WideTable(), I32({99}), F32({99, 67}), s, s, step, WideTable()},
                       0,
                       3}};
    op.timing = NotTimed(kMovesBytes);
    return op;
  }();
  return op;
}

const OpDef& AdamWOp() {
  static const OpDef op = [] {
    OpDef op;
    op.name = "adamw";
    op.inputs = {{"variable", kUpdates}, {"m", kUpdates}, {"v", kUpdates}, {"gradient"}, {"factor"},
                 {"learning_rate"},      {"step"}};
    op.attributes = AdamWAttributes();
    op.infer = [](const OpCall& call) { return InferAdamW("adamw", call, 1); };
    op.rule = [](const OpCall&) { return IndexRule::Parse("...,...,...,...,,,->"); };
    op.cost = [](const OpCall& call) { return ElementwiseCost(call, 15); };
    op.reference = ReferenceAdamW;
    const TensorType w = F32({5, 3}), s = F32({});
    op.cases = {
        {"matrix", AdamWAttributes{0.9, 0.95, 1e-8, 0.1}, {w, w, w, w, s, s, I32({})}, 1, 3},
        {"uncorrected",
         AdamWAttributes{0.9, 0.95, 1e-8, 0.1, false},
         {w, w, w, w, s, s, I32({})},
         1,
         3}};
    op.large_cases = {{"",
                       AdamWAttributes{0.9, 0.95, 1e-8, 0.1},
                       {Wide(), Wide(), Wide(), Wide(), s, s, I32({})},
                       1,
                       3}};
    op.timing = {
        Elements(), [](At at) {
          const TensorType w = F32({at[0]}), s = F32({});
          return OpCase{
              "", AdamWAttributes{0.9, 0.95, 1e-8, 0.1}, {w, w, w, w, s, s, I32({})}, 1, 1};
        }};
    return op;
  }();
  return op;
}

const OpDef& AdamWSparseOp() {
  static const OpDef op = [] {
    OpDef op;
    op.name = "adamw_sparse";
    op.inputs = {
        {"variable", kUpdates}, {"m", kUpdates}, {"v", kUpdates}, {"ids"}, {"values"}, {"factor"},
        {"learning_rate"},      {"step"}};
    op.attributes = AdamWAttributes();
    op.infer = [](const OpCall& call) { return InferAdamW("adamw_sparse", call, 2); };
    op.signatures = [](const OpCall& call, int64_t shards) {
      return RowsSignatures(call, shards, 3);
    };
    op.cost = [](const OpCall& call) {
      return Cost{15 * call.inputs[4].shape.NumElements(), 8 * BytesOf(call.inputs.subspan(3, 2)),
                  2 * BytesOf(call.inputs.subspan(3, 2)) + 4096};
    };
    op.reference = ReferenceAdamWSparse;
    const TensorType w = F32({7, 3}), g = F32({3, 5, 2}), s = F32({});
    op.cases = {{"table",
                 AdamWAttributes{0.9, 0.95, 1e-8, 0.1},
                 {w, w, w, I32({2, 3}), F32({2, 3, 3}), s, s, I32({})},
                 1,
                 3},
                {"groups",
                 AdamWAttributes{0.9, 0.95, 1e-8, 0.1},
                 {g, g, g, I32({3, 4}), F32({3, 4, 2}), s, s, I32({})},
                 1,
                 3}};
    op.large_cases = {
        {"",
         AdamWAttributes{0.9, 0.95, 1e-8, 0.1},
         {WideTable(), WideTable(), WideTable(), I32({99}), F32({99, 67}), s, s, I32({})},
         1,
         3}};
    op.timing = NotTimed(kNotInModels);
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

const OpDef& AdamWValueOp() {
  static const OpDef op = [] {
    OpDef op = ValueForm(AdamWOp());
    op.infer = [](const OpCall& call) {
      return InferValue("adamw_value", call, 7, 3, InferAdamW("adamw_value", call, 1));
    };
    op.rule = [](const OpCall&) { return IndexRule::Parse("...,...,...,...,,,->..."); };
    return op;
  }();
  return op;
}

const OpDef& AdamWSparseValueOp() {
  static const OpDef op = [] {
    OpDef op = ValueForm(AdamWSparseOp());
    op.infer = [](const OpCall& call) {
      return InferValue("adamw_sparse_value", call, 8, 4,
                        InferAdamW("adamw_sparse_value", call, 2));
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
    op.inputs = {{"variable", kUpdates}, {"ids"}, {"rows"}};
    op.attributes = NoAttributes();
    op.infer = [](const OpCall& call) -> absl::StatusOr<Types> {
      RETURN_IF_ERROR(CheckCount("assign_sparse", call, 3));
      RETURN_IF_ERROR(CheckGradient("assign_sparse", call.inputs[0], call.inputs.subspan(1, 2)));
      return Types();
    };
    op.signatures = [](const OpCall& call, int64_t shards) {
      return RowsSignatures(call, shards, 1);
    };
    op.cost = [](const OpCall& call) { return Cost{0, 2 * BytesOf(call.inputs.subspan(1, 2))}; };
    op.reference = ReferenceAssignSparse;
    op.cases = {{"table", NoAttributes(), {F32({7, 3}), I32({2, 3}), F32({2, 3, 3})}, 0, 4},
                {"groups", NoAttributes(), {F32({3, 5, 2}), I32({3, 4}), F32({3, 4, 2})}, 0, 4}};
    op.large_cases = {{"", NoAttributes(), {F32({131, 67}), I32({99}), F32({99, 67})}, 0, 3}};
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

std::vector<Tensor> AdamWInputs(Tensor variable, Tensor m, Tensor v, const Gradient& gradient,
                                Tensor factor, Tensor learning_rate, Tensor step) {
  std::vector<Tensor> inputs = {variable, m, v};
  inputs.insert(inputs.end(), gradient.tensors.begin(), gradient.tensors.end());
  inputs.push_back(FactorOr1(variable, factor));
  inputs.push_back(learning_rate);
  inputs.push_back(step);
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

void AdamWUpdate(Tensor variable, Tensor m, Tensor v, const Gradient& gradient, Tensor factor,
                 Tensor learning_rate, Tensor step, const AdamWAttributes& attributes) {
  Apply(gradient.kind == Gradient::kSparse ? AdamWSparseOp() : AdamWOp(), attributes,
        AdamWInputs(variable, m, v, gradient, factor, learning_rate, step));
}

Tensor AdamWValue(Tensor variable, Tensor m, Tensor v, const Gradient& gradient, Tensor factor,
                  Tensor learning_rate, Tensor step, const AdamWAttributes& attributes) {
  return ApplyOne(gradient.kind == Gradient::kSparse ? AdamWSparseValueOp() : AdamWValueOp(),
                  attributes, AdamWInputs(variable, m, v, gradient, factor, learning_rate, step));
}

void Assign(Tensor variable, const Gradient& gradient, Tensor value) {
  if (gradient.kind == Gradient::kSparse) {
    Apply(AssignSparseOp(), NoAttributes(), {variable, gradient.tensors[0], value});
  } else {
    Apply(AssignOp(), NoAttributes(), {variable, value});
  }
}

}  // namespace sluice
