// Elementwise arithmetic. Operands broadcast: the equation is written from the shapes, with the
// factor of each output dimension and 1 where an operand has one element for many.
#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_join.h"
#include "framework/ops/cases.h"
#include "framework/ops/inference.h"
#include "framework/ops/op_defs.h"
#include "framework/ops/ops.h"
#include "framework/ops/reference.h"

namespace sluice {
namespace {

absl::StatusOr<Types> InferBinary(absl::string_view op, const OpCall& call, bool integers) {
  RETURN_IF_ERROR(CheckCount(op, call, 2));
  const TensorType& a = call.inputs[0];
  const TensorType& b = call.inputs[1];
  if (!integers) RETURN_IF_ERROR(CheckFloat(op, "the left operand", a));
  const auto refuse = [&](absl::string_view what) {
    return Mismatch(op, "expected ", what, ", got ", TypeText(a), " and ", TypeText(b));
  };
  if (a.dtype != b.dtype) return refuse("one dtype");
  const int rank = std::max(a.shape.rank(), b.shape.rank());
  Shape shape;
  for (int d = 0; d < rank; ++d) {
    const int from_a = d - (rank - a.shape.rank()), from_b = d - (rank - b.shape.rank());
    const int64_t x = from_a < 0 ? 1 : a.shape[from_a], y = from_b < 0 ? 1 : b.shape[from_b];
    if (x != y && x != 1 && y != 1) return refuse("extents that are equal or 1, from the right");
    shape.Append(x == 1 ? y : x);
  }
  return Types{{a.dtype, shape}};
}

// The factors of an operand whose trailing dimensions align with the output's.
std::string BroadcastTerm(const Shape& operand, const Shape& output) {
  std::string term;
  const int missing = output.rank() - operand.rank();
  for (int d = 0; d < operand.rank(); ++d) {
    term += operand[d] == 1 && output[d + missing] != 1 ? '1' : DimFactor(d + missing);
  }
  return term;
}

absl::StatusOr<IndexRule> BinaryRule(const OpCall& call, std::vector<std::vector<int>> linear) {
  const Shape& output = call.outputs[0].shape;
  return IndexRule::Parse(
      absl::StrCat(BroadcastTerm(call.inputs[0].shape, output), ",",
                   BroadcastTerm(call.inputs[1].shape, output), "->", DimFactors(output.rank())),
      std::move(linear));
}

// Step of an operand's place in its part for each output dimension; 0 where it is broadcast.
Shape BroadcastStrides(const ShardArray& operand, const Shape& output) {
  const Shape own = operand.array.shape.Strides();
  const int missing = output.rank() - operand.logical.shape.rank();
  Shape strides;
  for (int d = 0; d < output.rank(); ++d) {
    const bool absent = d < missing || (operand.logical.shape[d - missing] == 1 && output[d] != 1);
    strides.Append(absent ? 0 : own[d - missing]);
  }
  return strides;
}

template <typename F>
absl::Status ReferenceBinary(const ReferenceCall& call, F&& fn) {
  const ShardArray& a = call.inputs[0];
  const ShardArray& b = call.inputs[1];
  ShardArray& y = call.outputs[0];
  const Shape a_strides = BroadcastStrides(a, y.logical.shape);
  const Shape b_strides = BroadcastStrides(b, y.logical.shape);
  ForEachIndex(y.box, [&](const Shape& index, int64_t flat) {
    int64_t at_a = 0, at_b = 0;
    for (int d = 0; d < index.rank(); ++d) {
      at_a += (index[d] - y.box[d].begin) * a_strides[d];
      at_b += (index[d] - y.box[d].begin) * b_strides[d];
    }
    y.array.values[flat] = fn(a.array.values[at_a], b.array.values[at_b]);
  });
  return absl::OkStatus();
}

OpDef MakeBinaryOp(const char* name) {
  OpDef op;
  op.name = name;
  op.inputs = {{"a"}, {"b"}};
  op.computes_in = ComputesIn::kEither;
  op.outputs = {{"y"}};
  op.in_place = true;
  op.cost = [](const OpCall& call) { return ElementwiseCost(call, 1); };
  const TensorType full = {DType::kF32, {5, 3, 4}}, row = {DType::kF32, {4}};
  op.cases = {{"equal", NoAttributes(), {full, full}},
              {"row", NoAttributes(), {full, row}},
              {"scalar", NoAttributes(), {{DType::kF32, {}}, full}},
              {"ones", NoAttributes(), {{DType::kF32, {5, 1, 4}}, {DType::kF32, {3, 1}}}}};
  return op;
}

void AddGradient(const Node&, absl::Span<const Tensor> inputs, absl::Span<const Tensor>,
                 absl::Span<const Tensor> dy, std::vector<Gradient>* dx) {
  (*dx)[0] = Dense(ReduceTo(dy[0], inputs[0].shape()));
  (*dx)[1] = Dense(ReduceTo(dy[0], inputs[1].shape()));
}

void SubtractGradient(const Node&, absl::Span<const Tensor> inputs, absl::Span<const Tensor>,
                      absl::Span<const Tensor> dy, std::vector<Gradient>* dx) {
  (*dx)[0] = Dense(ReduceTo(dy[0], inputs[0].shape()));
  (*dx)[1] = Dense(Scale(ReduceTo(dy[0], inputs[1].shape()), -1));
}

void MultiplyGradient(const Node&, absl::Span<const Tensor> inputs, absl::Span<const Tensor>,
                      absl::Span<const Tensor> dy, std::vector<Gradient>* dx) {
  (*dx)[0] = Dense(ReduceTo(Multiply(dy[0], inputs[1]), inputs[0].shape()));
  (*dx)[1] = Dense(ReduceTo(Multiply(dy[0], inputs[0]), inputs[1].shape()));
}

void DivideGradient(const Node&, absl::Span<const Tensor> inputs, absl::Span<const Tensor> outputs,
                    absl::Span<const Tensor> dy, std::vector<Gradient>* dx) {
  const Tensor da = Divide(dy[0], inputs[1]);
  (*dx)[0] = Dense(ReduceTo(da, inputs[0].shape()));
  (*dx)[1] = Dense(Scale(ReduceTo(Multiply(da, outputs[0]), inputs[1].shape()), -1));
}

void AddNGradient(const Node&, absl::Span<const Tensor> inputs, absl::Span<const Tensor>,
                  absl::Span<const Tensor> dy, std::vector<Gradient>* dx) {
  for (size_t i = 0; i < inputs.size(); ++i) (*dx)[i] = Dense(dy[0]);
}

}  // namespace

const OpDef& AddOp() {
  static const OpDef op = [] {
    OpDef op = MakeBinaryOp("add");
    op.infer = [](const OpCall& call) { return InferBinary("add", call, true); };
    op.rule = [](const OpCall& call) { return BinaryRule(call, {{0, 1}}); };
    op.gradient = AddGradient;
    op.sum = true;
    op.reference = [](const ReferenceCall& call) {
      return ReferenceBinary(call, [](double a, double b) { return a + b; });
    };
    op.large_cases = {{"", NoAttributes(), {Wide(), WideRow()}},
                      {"", NoAttributes(), {Wide(), Wide()}}};
    op.timing = TimedByElements<2>();
    return op;
  }();
  return op;
}

const OpDef& SubtractOp() {
  static const OpDef op = [] {
    OpDef op = MakeBinaryOp("subtract");
    op.infer = [](const OpCall& call) { return InferBinary("subtract", call, true); };
    op.rule = [](const OpCall& call) { return BinaryRule(call, {{0, 1}}); };
    op.gradient = SubtractGradient;
    op.reference = [](const ReferenceCall& call) {
      return ReferenceBinary(call, [](double a, double b) { return a - b; });
    };
    op.large_cases = {{"", NoAttributes(), {WideRow(), Wide()}}};
    op.timing = NotTimed(kMovesBytes);
    return op;
  }();
  return op;
}

const OpDef& MultiplyOp() {
  static const OpDef op = [] {
    OpDef op = MakeBinaryOp("multiply");
    op.infer = [](const OpCall& call) { return InferBinary("multiply", call, true); };
    op.rule = [](const OpCall& call) { return BinaryRule(call, {{0}, {1}}); };
    op.gradient = MultiplyGradient;
    op.reference = [](const ReferenceCall& call) {
      return ReferenceBinary(call, [](double a, double b) { return a * b; });
    };
    op.large_cases = {{"", NoAttributes(), {F32({301, 1}), Wide()}}};
    op.timing = TimedByElements<2>();
    return op;
  }();
  return op;
}

const OpDef& DivideOp() {
  static const OpDef op = [] {
    OpDef op = MakeBinaryOp("divide");
    op.infer = [](const OpCall& call) { return InferBinary("divide", call, false); };
    op.rule = [](const OpCall& call) { return BinaryRule(call, {{0}}); };
    op.gradient = DivideGradient;
    op.reference = [](const ReferenceCall& call) {
      return ReferenceBinary(call, [](double a, double b) { return a / b; });
    };
    for (OpCase& c : op.cases) c.low = 0.5;
    op.large_cases = {{"", NoAttributes(), {Wide(), F32({})}, 0.5, 2}};
    op.timing = NotTimed(kMovesBytes);
    return op;
  }();
  return op;
}

const OpDef& ScaleOp() {
  static const OpDef op = [] {
    OpDef op;
    op.name = "scale";
    op.inputs = {{"x"}};
    op.computes_in = ComputesIn::kEither;
    op.outputs = {{"y"}};
    op.in_place = true;
    op.attributes = ScaleAttributes();
    op.infer = [](const OpCall& call) -> absl::StatusOr<Types> {
      RETURN_IF_ERROR(CheckCount("scale", call, 1));
      RETURN_IF_ERROR(CheckFloat("scale", "x", call.inputs[0]));
      return Types{call.inputs[0]};
    };
    op.rule = [](const OpCall&) { return IndexRule::Parse("...->...", {{0}}); };
    op.gradient = [](const Node& node, absl::Span<const Tensor>, absl::Span<const Tensor>,
                     absl::Span<const Tensor> dy, std::vector<Gradient>* dx) {
      (*dx)[0] = Dense(Scale(dy[0], std::get<ScaleAttributes>(node.attributes).factor));
    };
    op.cost = [](const OpCall& call) { return ElementwiseCost(call, 1); };
    op.reference = [](const ReferenceCall& call) {
      const double factor = std::get<ScaleAttributes>(call.attributes).factor;
      return ReferenceMap(call, [factor](double x) { return factor * x; });
    };
    op.cases = {{"matrix", ScaleAttributes{-0.75}, {{DType::kF32, {5, 3}}}}};
    op.large_cases = {{"", ScaleAttributes{0.3}, {Wide()}}};
    op.timing = {Elements(), [](At at) { return OpCase{"", ScaleAttributes(), {F32({at[0]})}}; }};
    return op;
  }();
  return op;
}

const OpDef& AddNOp() {
  static const OpDef op = [] {
    OpDef op;
    op.name = "add_n";
    op.inputs = {{"terms", /*updates=*/false, /*variadic=*/true}};
    op.computes_in = ComputesIn::kEither;
    op.outputs = {{"y"}};
    op.infer = [](const OpCall& call) -> absl::StatusOr<Types> {
      if (call.inputs.empty()) return Mismatch("add_n", "expected at least one term, got none");
      for (const TensorType& term : call.inputs) {
        RETURN_IF_ERROR(CheckType("add_n", "every term", call.inputs[0], term));
      }
      return Types{call.inputs[0]};
    };
    op.rule = [](const OpCall& call) {
      std::vector<std::string> terms(call.inputs.size(), "...");
      std::vector<int> all;
      for (size_t i = 0; i < terms.size(); ++i) all.push_back(static_cast<int>(i));
      return IndexRule::Parse(absl::StrCat(absl::StrJoin(terms, ","), "->..."), {all});
    };
    op.gradient = AddNGradient;
    op.sum = true;
    op.cost = [](const OpCall& call) {
      return ElementwiseCost(call, static_cast<int64_t>(call.inputs.size()) - 1);
    };
    op.reference = [](const ReferenceCall& call) {
      for (const ShardArray& term : call.inputs) {
        for (size_t i = 0; i < term.array.values.size(); ++i) {
          call.outputs[0].array.values[i] += term.array.values[i];
        }
      }
      return absl::OkStatus();
    };
    const TensorType type = {DType::kF32, {5, 3}};
    op.cases = {{"three", NoAttributes(), {type, type, type}}, {"one", NoAttributes(), {type}}};
    op.large_cases = {{"", NoAttributes(), Equal(3, Wide())}};
    op.timing = TimedByElements<3>();
    return op;
  }();
  return op;
}

const OpDef& SqrtOp() {
  static const OpDef op = [] {
    OpDef op;
    op.name = "sqrt";
    op.inputs = {{"x"}};
    op.outputs = {{"y"}};
    op.infer = [](const OpCall& call) -> absl::StatusOr<Types> {
      RETURN_IF_ERROR(CheckCount("sqrt", call, 1));
      RETURN_IF_ERROR(CheckFloat("sqrt", "x", call.inputs[0]));
      return Types{call.inputs[0]};
    };
    op.rule = [](const OpCall&) { return IndexRule::Parse("...->..."); };
    op.gradient = [](const Node&, absl::Span<const Tensor>, absl::Span<const Tensor> outputs,
                     absl::Span<const Tensor> dy, std::vector<Gradient>* dx) {
      (*dx)[0] = Dense(Scale(Divide(dy[0], outputs[0]), 0.5));
    };
    op.cost = [](const OpCall& call) { return ElementwiseCost(call, 4); };
    op.reference = [](const ReferenceCall& call) {
      return ReferenceMap(call, [](double x) { return std::sqrt(x); });
    };
    op.cases = {{"vector", NoAttributes(), {{DType::kF32, {5, 3}}}, 0.1, 4},
                {"scalar", NoAttributes(), {{DType::kF32, {}}}, 0.1, 4}};
    op.large_cases = {{"", NoAttributes(), {Wide()}, 0.1, 4}};
    op.timing = NotTimed(kFewScalars);
    return op;
  }();
  return op;
}

Tensor Add(Tensor a, Tensor b) { return ApplyOne(AddOp(), NoAttributes(), {a, b}); }
Tensor Subtract(Tensor a, Tensor b) { return ApplyOne(SubtractOp(), NoAttributes(), {a, b}); }
Tensor Multiply(Tensor a, Tensor b) { return ApplyOne(MultiplyOp(), NoAttributes(), {a, b}); }
Tensor Divide(Tensor a, Tensor b) { return ApplyOne(DivideOp(), NoAttributes(), {a, b}); }
Tensor Scale(Tensor x, double factor) { return ApplyOne(ScaleOp(), ScaleAttributes{factor}, {x}); }
Tensor AddN(const std::vector<Tensor>& terms) {
  return terms.size() == 1 ? terms[0] : ApplyOne(AddNOp(), NoAttributes(), terms);
}
Tensor Sqrt(Tensor x) { return ApplyOne(SqrtOp(), NoAttributes(), {x}); }

}  // namespace sluice
