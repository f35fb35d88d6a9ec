// Updates, and clipping. Scalars come as tensors: learning rate f32, step i32, factor f32 (f64
// beside f64 variables, so that tests compare to rounding). The rows forms touch only the rows
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
#include "framework/ops/reference.h"

namespace sluice {
namespace {

constexpr bool kUpdates = true, kVariadic = true;

absl::Status CheckScalar(absl::string_view op, absl::string_view port, DType dtype,
                         const TensorType& type) {
  return CheckType(op, port, {dtype, {}}, type);
}

// What gradients are multiplied by, and the sum of squares it comes from: f64 if those are.
absl::Status CheckStatistic(absl::string_view op, absl::string_view port, const TensorType& type) {
  if (type.dtype == DType::kF64) return CheckScalar(op, port, DType::kF64, type);
  return CheckScalar(op, port, DType::kF32, type);
}

// The gradient of `variable`: one dense tensor, or ids and values.
absl::Status CheckGradient(absl::string_view op, const TensorType& variable,
                           absl::Span<const TensorType> gradient) {
  if (gradient.size() == 1) return CheckType(op, "the gradient", variable, gradient[0]);
  const TensorType &ids = gradient[0], &values = gradient[1];
  RETURN_IF_ERROR(CheckIndices(op, "ids", ids));
  Shape expected = ids.shape;
  if (variable.shape.rank() != 2) {
    return Mismatch(op, "expected a table of [rows,width], got ", TypeText(variable));
  }
  expected.Append(variable.shape[1]);
  return CheckType(op, "values", {variable.dtype, expected}, values);
}

// variable, gradient.., factor, learning rate, momentum or nothing.
absl::StatusOr<Types> InferSgd(absl::string_view op, const OpCall& call, size_t gradients) {
  const size_t least = 3 + gradients;
  if (call.inputs.size() != least && call.inputs.size() != least + 1) {
    return Mismatch(op, "expected ", least, " inputs, or one more for momentum, got ",
                    call.inputs.size());
  }
  const TensorType& variable = call.inputs[0];
  RETURN_IF_ERROR(CheckFloat(op, "variable", variable));
  RETURN_IF_ERROR(CheckGradient(op, variable, call.inputs.subspan(1, gradients)));
  RETURN_IF_ERROR(CheckStatistic(op, "factor", call.inputs[1 + gradients]));
  RETURN_IF_ERROR(CheckScalar(op, "learning_rate", DType::kF32, call.inputs[2 + gradients]));
  if (std::get<SgdAttributes>(call.attributes).nesterov &&
      std::get<SgdAttributes>(call.attributes).momentum == 0) {
    return Mismatch(op, "expected a momentum with nesterov, got 0");
  }
  if (call.inputs.size() > least) {
    RETURN_IF_ERROR(CheckType(op, "momentum", variable, call.inputs[least]));
  } else if (std::get<SgdAttributes>(call.attributes).momentum != 0) {
    return Mismatch(op, "expected a state for a momentum of ",
                    std::get<SgdAttributes>(call.attributes).momentum, ", got none");
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
  double factor, learning_rate;
  void operator()(double gradient, double* variable, double* momentum) const {
    double g = factor * gradient + attributes.weight_decay * *variable;
    if (momentum != nullptr) {
      const double kept = *momentum = attributes.momentum * *momentum + g;
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
        correction1(1 - std::pow(a.beta1, step)),
        correction2(std::sqrt(1 - std::pow(a.beta2, step))) {}
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
          ScalarOf(call.inputs[factor + 1])};
}
AdamWStep AdamWStepOf(const ReferenceCall& call, size_t factor) {
  return {std::get<AdamWAttributes>(call.attributes), ScalarOf(call.inputs[factor]),
          ScalarOf(call.inputs[factor + 1]), ScalarOf(call.inputs[factor + 2])};
}

// Calls update(gradient, place) for each element of the rows that the shard of a table holds.
template <typename F>
absl::Status ForEachRowElement(const char* op, const ShardArray& table, const ShardArray& ids,
                               const ShardArray& values, F&& update) {
  RETURN_IF_ERROR(CheckInRange(op, "ids", ids.array, table.logical.shape[0]));
  const GatheredRows rows = GatherRows(ids.array, values.array, table.box[0]);
  const int64_t width = RowLength(table.array);
  for (size_t i = 0; i < rows.ids.size(); ++i) {
    for (int64_t e = 0; e < width; ++e) {
      update(rows.values[i][e], (rows.ids[i] - table.box[0].begin) * width + e);
    }
  }
  return absl::OkStatus();
}

// What an update writes: its variable or, in a form that gives the value, a copy of it.
std::vector<double>& NewValue(const ReferenceCall& call) {
  if (call.outputs.empty()) return call.inputs[0].array.values;
  return call.outputs[0].array.values = call.inputs[0].array.values;
}

// Of the rows forms: runs `update` on the table or, in a form that gives the rows, on a copy, and
// gives each row named. A shard without a row gives the identity of the sum that follows.
template <typename F>
absl::Status UpdateRows(const ReferenceCall& call, size_t ids_port, F&& update) {
  ShardArray& table = call.inputs[0];
  if (call.outputs.empty()) return update(&table.array.values);
  std::vector<double> changed = table.array.values;
  RETURN_IF_ERROR(update(&changed));
  const std::vector<double>& ids = call.inputs[ids_port].array.values;
  const int64_t width = RowLength(table.array);
  std::vector<double>& rows = call.outputs[0].array.values;
  for (size_t i = 0; i < ids.size(); ++i) {
    const int64_t row = static_cast<int64_t>(ids[i]) - table.box[0].begin;
    const bool held = row >= 0 && row < table.box[0].size();
    for (int64_t e = 0; e < width; ++e) {
      rows[i * width + e] = held ? changed[row * width + e] : -0.0;
    }
  }
  return absl::OkStatus();
}

absl::Status ReferenceSgd(const ReferenceCall& call) {
  const SgdStep step = SgdStepOf(call, 2);
  const bool has_momentum = call.inputs.size() > 4;
  std::vector<double>& variable = NewValue(call);
  for (size_t i = 0; i < variable.size(); ++i) {
    step(call.inputs[1].array.values[i], &variable[i],
         has_momentum ? &call.inputs[4].array.values[i] : nullptr);
  }
  return absl::OkStatus();
}

absl::Status ReferenceSgdSparse(const ReferenceCall& call) {
  const SgdStep step = SgdStepOf(call, 3);
  const bool has_momentum = call.inputs.size() > 5;
  return UpdateRows(call, 1, [&](std::vector<double>* table) {
    return ForEachRowElement("sgd_sparse", call.inputs[0], call.inputs[1], call.inputs[2],
                             [&](double gradient, int64_t i) {
                               step(gradient, &(*table)[i],
                                    has_momentum ? &call.inputs[5].array.values[i] : nullptr);
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
  RETURN_IF_ERROR(CheckInRange("assign_sparse", "ids", ids.array, table.logical.shape[0]));
  const int64_t width = RowLength(table.array);
  for (size_t i = 0; i < ids.array.values.size(); ++i) {
    const int64_t row = static_cast<int64_t>(ids.array.values[i]) - table.box[0].begin;
    if (row < 0 || row >= table.box[0].size()) continue;
    for (int64_t e = 0; e < width; ++e) {
      table.array.values[row * width + e] = rows.array.values[i * width + e];
    }
  }
  return absl::OkStatus();
}

// A table is split by rows, which each shard picks out for itself, or by columns. Splitting the ids
// would leave each shard with its own rows only. Rows that are given are then each one shard's.
absl::StatusOr<std::vector<Signature>> RowsSignatures(const OpCall& call, int64_t shards,
                                                      size_t ids) {
  const auto make = [&](const char* factor, int table_dim, int values_dim, int rows_dim) {
    std::vector<int> inputs(call.inputs.size(), kWhole);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const bool table = i < ids || i > ids + 1;  // or a scalar
      if (table && call.inputs[i].shape.rank() == 2) inputs[i] = table_dim;
    }
    inputs[ids + 1] = values_dim;
    return MakeSignature(factor, inputs, std::vector<int>(call.outputs.size(), rows_dim));
  };
  std::vector<Signature> signatures = {make("", kWhole, kWhole, kWhole)};
  if (shards < 2) return signatures;
  const Shape& table = call.inputs[0].shape;
  const int column = call.inputs[ids].shape.rank();
  if (table[1] > 1) signatures.push_back(make("e", 1, column, column));
  if (table[0] > 1) signatures.push_back(make("v", 0, kWhole, kPartial));
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

const OpDef& SgdOp() {
  static const OpDef op = [] {
    OpDef op;
    op.name = "sgd";
    op.inputs = {{"variable", kUpdates},
                 {"gradient"},
                 {"factor"},
                 {"learning_rate"},
                 {"momentum", kUpdates, kVariadic}};
    op.attributes = SgdAttributes();
    op.infer = [](const OpCall& call) { return InferSgd("sgd", call, 1); };
    op.rule = [](const OpCall& call) {
      return IndexRule::Parse(call.inputs.size() > 4 ? "...,...,,,...->" : "...,...,,->");
    };
    op.cost = [](const OpCall& call) { return ElementwiseCost(call, 6); };
    op.reference = ReferenceSgd;
    const TensorType w = F32({5, 3});
    op.cases = {{"momentum", SgdAttributes{0.9, 0.1}, {w, w, F32({}), F32({}), w}},
                {"nesterov", SgdAttributes{0.9, 0.1, true}, {w, w, F32({}), F32({}), w}},
                {"plain", SgdAttributes{0, 0}, {w, w, F32({}), F32({})}}};
    op.large_cases = {
        {"", SgdAttributes{0.9, 0.1}, {Wide(), Wide(), F32({}), F32({}), Wide()}},
        {"", SgdAttributes{0.9, 0.1, true}, {Wide(), Wide(), F32({}), F32({}), Wide()}}};
    op.timing = NotTimed(kMovesBytes);
    return op;
  }();
  return op;
}

const OpDef& SgdSparseOp() {
  static const OpDef op = [] {
    OpDef op;
    op.name = "sgd_sparse";
    op.inputs = {
        {"variable", kUpdates},           {"ids"}, {"values"}, {"factor"}, {"learning_rate"},
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
    op.cases = {
        {"momentum", SgdAttributes{0.9, 0.1}, {w, ids, values, F32({}), F32({}), w}, 0, 4},
        {"nesterov", SgdAttributes{0.9, 0.1, true}, {w, ids, values, F32({}), F32({}), w}, 0, 4},
        {"plain", SgdAttributes{0, 0}, {w, ids, values, F32({}), F32({})}, 0, 4}};
    op.large_cases = {{"",
                       SgdAttributes{0.9, 0.1},
                       {WideTable(), I32({99}), F32({99, 67}), F32({}), F32({}), WideTable()},
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
        {"matrix", AdamWAttributes{0.9, 0.95, 1e-8, 0.1}, {w, w, w, w, s, s, I32({})}, 1, 3}};
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
    const TensorType w = F32({7, 3}), s = F32({});
    op.cases = {{"table",
                 AdamWAttributes{0.9, 0.95, 1e-8, 0.1},
                 {w, w, w, I32({2, 3}), F32({2, 3, 3}), s, s, I32({})},
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
      return InferValue("sgd_value", call, 5, 1, InferSgd("sgd_value", call, 1));
    };
    op.rule = [](const OpCall&) { return IndexRule::Parse("...,...,,,...->..."); };
    return op;
  }();
  return op;
}

const OpDef& SgdSparseValueOp() {
  static const OpDef op = [] {
    OpDef op = ValueForm(SgdSparseOp());
    op.infer = [](const OpCall& call) {
      return InferValue("sgd_sparse_value", call, 6, 2, InferSgd("sgd_sparse_value", call, 2));
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
    op.cases = {{"table", NoAttributes(), {F32({7, 3}), I32({2, 3}), F32({2, 3, 3})}, 0, 4}};
    op.large_cases = {{"", NoAttributes(), {F32({131, 67}), I32({99}), F32({99, 67})}, 0, 3}};
    op.timing = NotTimed(kMovesBytes);
    return op;
  }();
  return op;
}

namespace {

std::vector<Tensor> SgdInputs(Tensor variable, Tensor momentum, const Gradient& gradient,
                              Tensor factor, Tensor learning_rate) {
  std::vector<Tensor> inputs = {variable};
  inputs.insert(inputs.end(), gradient.tensors.begin(), gradient.tensors.end());
  inputs.push_back(FactorOr1(variable, factor));
  inputs.push_back(learning_rate);
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
               Tensor learning_rate, const SgdAttributes& attributes) {
  Apply(gradient.kind == Gradient::kSparse ? SgdSparseOp() : SgdOp(), attributes,
        SgdInputs(variable, momentum, gradient, factor, learning_rate));
}

Tensor SgdValue(Tensor variable, Tensor momentum, const Gradient& gradient, Tensor factor,
                Tensor learning_rate, const SgdAttributes& attributes) {
  return ApplyOne(gradient.kind == Gradient::kSparse ? SgdSparseValueOp() : SgdValueOp(),
                  attributes, SgdInputs(variable, momentum, gradient, factor, learning_rate));
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

Tensor ClipFactor(Tensor sum_squares, double max_norm) {
  return ApplyOne(ClipFactorOp(), ClipAttributes{max_norm}, {sum_squares});
}

}  // namespace sluice
