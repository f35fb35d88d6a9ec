// Activations, softmax over the last dimension, and dropout.
#include <algorithm>
#include <cmath>

#include "framework/ops/cases.h"
#include "framework/ops/inference.h"
#include "framework/ops/op_defs.h"
#include "framework/ops/ops.h"
#include "framework/ops/reference.h"
#include "framework/tensor/random.h"

namespace sluice {
namespace {

// Of gelu the tanh form: 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
constexpr double kGeluScale = 0.79788456080286535588, kGeluCubic = 0.044715;

double GeluOf(double x) {
  return 0.5 * x * (1 + std::tanh(kGeluScale * (x + kGeluCubic * x * x * x)));
}
double GeluSlope(double x) {
  const double t = std::tanh(kGeluScale * (x + kGeluCubic * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * kGeluScale * (1 + 3 * kGeluCubic * x * x);
}

double PhiOf(double x) { return 0.5 * std::erfc(-x * std::sqrt(0.5)); }
double GeluErfOf(double x) { return x * PhiOf(x); }
double GeluErfSlope(double x) {
  constexpr double kDensity = 0.39894228040143267794;  // of the normal distribution, at 0
  return PhiOf(x) + x * kDensity * std::exp(-0.5 * x * x);
}

double SigmoidOf(double x) { return 1 / (1 + std::exp(-x)); }
double SigmoidSlopeOfY(double y) { return y * (1 - y); }
double TanhOf(double x) { return std::tanh(x); }
double TanhSlopeOfY(double y) { return 1 - y * y; }
double ReluOf(double x) { return x < 0 ? 0 : x; }
double ReluSlopeOfY(double y) { return y > 0 ? 1 : 0; }
double SiluOf(double x) { return x * SigmoidOf(x); }
double SiluSlope(double x) {
  const double s = SigmoidOf(x);
  return s * (1 + x * (1 - s));
}

absl::StatusOr<Types> InferSame(absl::string_view op, const OpCall& call, size_t count) {
  RETURN_IF_ERROR(CheckCount(op, call, count));
  RETURN_IF_ERROR(CheckFloat(op, "x", call.inputs[0]));
  for (const TensorType& type : call.inputs) {
    RETURN_IF_ERROR(CheckType(op, "every operand", call.inputs[0], type));
  }
  return Types{call.inputs[0]};
}

absl::StatusOr<Types> InferSoftmax(absl::string_view op, const OpCall& call, size_t count) {
  ASSIGN_OR_RETURN(Types types, InferSame(op, call, count));
  if (types[0].shape.rank() == 0) {
    return Mismatch(op, "expected at least one dimension, got ", TypeText(types[0]));
  }
  return types;
}

OpDef MakeOp(const char* name, std::vector<Port> inputs, const char* output) {
  OpDef op;
  op.name = name;
  op.inputs = std::move(inputs);
  op.computes_in = ComputesIn::kEither;
  op.outputs = {{output}};
  op.in_place = true;
  return op;
}

absl::Status ReferenceSoftmax(const ReferenceCall& call) {
  const Array& x = call.inputs[0].array;
  Array& y = call.outputs[0].array;
  const int64_t length = RowLength(x), rows = NumRows(x);
  for (int64_t r = 0; r < rows; ++r) {
    const double* from = x.values.data() + r * length;
    double* to = y.values.data() + r * length;
    double max = IdentityOf(Reduction::kMax), sum = 0;
    for (int64_t i = 0; i < length; ++i) max = Reduce(Reduction::kMax, max, from[i]);
    for (int64_t i = 0; i < length; ++i) sum += to[i] = std::exp(from[i] - max);
    for (int64_t i = 0; i < length; ++i) to[i] /= sum;
  }
  return absl::OkStatus();
}

absl::Status ReferenceSoftmaxGradient(const ReferenceCall& call) {
  const Array& y = call.inputs[0].array;
  const Array& dy = call.inputs[1].array;
  Array& dx = call.outputs[0].array;
  const int64_t length = RowLength(y), rows = NumRows(y);
  for (int64_t r = 0; r < rows; ++r) {
    double dot = 0;
    for (int64_t i = r * length; i < (r + 1) * length; ++i) dot += y.values[i] * dy.values[i];
    for (int64_t i = r * length; i < (r + 1) * length; ++i) {
      dx.values[i] = y.values[i] * (dy.values[i] - dot);
    }
  }
  return absl::OkStatus();
}

// Draws by logical index, so that every layout drops the same elements.
absl::Status ReferenceDropout(const ReferenceCall& call) {
  const DropoutAttributes& a = std::get<DropoutAttributes>(call.attributes);
  const ShardArray& x = call.inputs[0];
  ShardArray& y = call.outputs[0];
  const Box whole = WholeBox(x.logical.shape);
  const uint32_t threshold = DropoutThreshold(a.rate);
  ForEachIndex(x.box, [&](const Shape& index, int64_t flat) {
    const uint32_t word = RandomWord(call.seed, a.key, call.step, FlatAt(whole, index));
    y.array.values[flat] = word >= threshold ? x.array.values[flat] / (1 - a.rate) : 0;
  });
  return absl::OkStatus();
}

std::vector<OpCase> Cases(size_t inputs) {
  const TensorType matrix = {DType::kF32, {5, 7}}, cube = {DType::kF32, {3, 2, 5}};
  return {{"matrix", NoAttributes(), Types(inputs, matrix)},
          {"cube", NoAttributes(), Types(inputs, cube)}};
}

// A function of each element, and its gradient as an op of its own: of x and dy, or, where the
// slope is quicker had from the value, of y and dy.
struct Elementwise {
  const char *name, *gradient;
  double (*value)(double x);
  double (*slope)(double x_or_y);
  bool of_output;
  int64_t flops, gradient_flops;
  double range;  // large cases are drawn from [-range, range]
  const OpDef& (*gradient_op)();
  bool timed;  // else no model of ours has it yet
};

template <const Elementwise& kOf>
const OpDef& ElementwiseOp() {
  static const OpDef op = [] {
    OpDef op = MakeOp(kOf.name, {{"x"}}, "y");
    op.infer = [](const OpCall& call) { return InferSame(kOf.name, call, 1); };
    op.rule = [](const OpCall&) { return IndexRule::Parse("...->..."); };
    op.gradient = [](const Node&, absl::Span<const Tensor> inputs, absl::Span<const Tensor> outputs,
                     absl::Span<const Tensor> dy, std::vector<Gradient>* dx) {
      const Tensor from = kOf.of_output ? outputs[0] : inputs[0];
      (*dx)[0] = Dense(ApplyOne(kOf.gradient_op(), NoAttributes(), {from, dy[0]}));
    };
    op.cost = [](const OpCall& call) { return ElementwiseCost(call, kOf.flops); };
    op.reference = [](const ReferenceCall& call) { return ReferenceMap(call, kOf.value); };
    op.cases = Cases(1);
    op.large_cases = {{"", NoAttributes(), Equal(1, Wide()), -kOf.range, kOf.range}};
    op.timing = kOf.timed ? TimedByElements<1>() : NotTimed(kNotInModels);
    return op;
  }();
  return op;
}

template <const Elementwise& kOf>
const OpDef& ElementwiseGradientOp() {
  static const OpDef op = [] {
    OpDef op = MakeOp(kOf.gradient, {{kOf.of_output ? "y" : "x"}, {"dy"}}, "dx");
    op.infer = [](const OpCall& call) { return InferSame(kOf.gradient, call, 2); };
    op.rule = [](const OpCall&) { return IndexRule::Parse("...,...->...", {{1}}); };
    op.cost = [](const OpCall& call) { return ElementwiseCost(call, kOf.gradient_flops); };
    op.reference = [](const ReferenceCall& call) {
      return ReferenceMap2(call, [](double of, double dy) { return kOf.slope(of) * dy; });
    };
    op.cases = Cases(2);
    const double range = kOf.of_output ? 2 : kOf.range;
    op.large_cases = {{"", NoAttributes(), Equal(2, Wide()), -range, range}};
    op.timing = kOf.timed ? TimedByElements<2>() : NotTimed(kNotInModels);
    return op;
  }();
  return op;
}

constexpr Elementwise kGelu = {"gelu", "gelu_gradient", GeluOf, GeluSlope, false, 20, 30,
                               12,     GeluGradientOp,  true};
constexpr Elementwise kGeluErf = {
    "gelu_erf", "gelu_erf_gradient", GeluErfOf, GeluErfSlope, false, 25, 30,
    12,         GeluErfGradientOp,   true};
constexpr Elementwise kSilu = {"silu", "silu_gradient", SiluOf, SiluSlope, false, 15, 20,
                               12,     SiluGradientOp,  false};
constexpr Elementwise kSigmoid = {
    "sigmoid", "sigmoid_gradient", SigmoidOf, SigmoidSlopeOfY, true, 15, 3,
    12,        SigmoidGradientOp,  true};
constexpr Elementwise kTanh = {"tanh", "tanh_gradient", TanhOf, TanhSlopeOfY, true, 15, 3,
                               12,     TanhGradientOp,  true};
// y is positive where x is, and what comes after relu keeps y anyway: x need not live on.
constexpr Elementwise kRelu = {"relu", "relu_gradient", ReluOf, ReluSlopeOfY, true, 1, 1,
                               2,      ReluGradientOp,  true};

}  // namespace

const OpDef& GeluOp() { return ElementwiseOp<kGelu>(); }
const OpDef& GeluGradientOp() { return ElementwiseGradientOp<kGelu>(); }
const OpDef& GeluErfOp() { return ElementwiseOp<kGeluErf>(); }
const OpDef& GeluErfGradientOp() { return ElementwiseGradientOp<kGeluErf>(); }
const OpDef& SiluOp() { return ElementwiseOp<kSilu>(); }
const OpDef& SiluGradientOp() { return ElementwiseGradientOp<kSilu>(); }
const OpDef& SigmoidOp() { return ElementwiseOp<kSigmoid>(); }
const OpDef& SigmoidGradientOp() { return ElementwiseGradientOp<kSigmoid>(); }
const OpDef& TanhOp() { return ElementwiseOp<kTanh>(); }
const OpDef& TanhGradientOp() { return ElementwiseGradientOp<kTanh>(); }
const OpDef& ReluOp() { return ElementwiseOp<kRelu>(); }
const OpDef& ReluGradientOp() { return ElementwiseGradientOp<kRelu>(); }

const OpDef& SoftmaxOp() {
  static const OpDef op = [] {
    OpDef op = MakeOp("softmax", {{"x"}}, "y");
    op.infer = [](const OpCall& call) { return InferSoftmax("softmax", call, 1); };
    op.rule = [](const OpCall&) { return IndexRule::Parse("...E->...E"); };
    op.gradient = [](const Node&, absl::Span<const Tensor>, absl::Span<const Tensor> outputs,
                     absl::Span<const Tensor> dy, std::vector<Gradient>* dx) {
      (*dx)[0] = Dense(ApplyOne(SoftmaxGradientOp(), NoAttributes(), {outputs[0], dy[0]}));
    };
    op.cost = [](const OpCall& call) { return RowsCost(call, call.inputs[0], 20); };
    op.reference = ReferenceSoftmax;
    op.cases = Cases(1);
    op.large_cases = {{"", NoAttributes(), Equal(1, Wide()), -20, 20}};
    op.timing = {RowsByLength(), [](At at) {
                   return OpCase{"", NoAttributes(), {F32({at[0], at[1]})}};
                 }};
    return op;
  }();
  return op;
}

const OpDef& SoftmaxGradientOp() {
  static const OpDef op = [] {
    OpDef op = MakeOp("softmax_gradient", {{"y"}, {"dy"}}, "dx");
    op.infer = [](const OpCall& call) { return InferSoftmax("softmax_gradient", call, 2); };
    op.rule = [](const OpCall&) { return IndexRule::Parse("...E,...E->...E", {{1}}); };
    op.cost = [](const OpCall& call) { return RowsCost(call, call.inputs[0], 4); };
    op.reference = ReferenceSoftmaxGradient;
    op.cases = Cases(2);
    op.large_cases = {{"", NoAttributes(), Equal(2, Wide())}};
    op.timing = NotTimed(kNotInModels);
    return op;
  }();
  return op;
}

const OpDef& DropoutOp() {
  static const OpDef op = [] {
    OpDef op = MakeOp("dropout", {{"x"}}, "y");
    op.attributes = DropoutAttributes();
    op.infer = [](const OpCall& call) -> absl::StatusOr<Types> {
      const double rate = std::get<DropoutAttributes>(call.attributes).rate;
      if (!(rate >= 0 && rate < 1)) {
        return Mismatch("dropout", "expected a rate in [0, 1), got ", rate);
      }
      return InferSame("dropout", call, 1);
    };
    op.rule = [](const OpCall&) { return IndexRule::Parse("...->...", {{0}}); };
    // The same draw again: same key, same logical indices.
    op.gradient = [](const Node& node, absl::Span<const Tensor>, absl::Span<const Tensor>,
                     absl::Span<const Tensor> dy, std::vector<Gradient>* dx) {
      (*dx)[0] = Dense(ApplyOne(DropoutOp(), node.attributes, {dy[0]}));
    };
    // At a rate of zero, which ops that drop within them may have, nothing is drawn.
    op.cost = [](const OpCall& call) {
      const bool draws = std::get<DropoutAttributes>(call.attributes).rate > 0;
      return ElementwiseCost(call, draws ? 12 : 0);
    };
    op.reference = ReferenceDropout;
    op.random = true;
    op.cases = {{"matrix", DropoutAttributes{0.3, 77}, {{DType::kF32, {5, 7}}}},
                {"cube", DropoutAttributes{0.1, 5}, {{DType::kF32, {3, 5, 6}}}}};
    op.large_cases = {{"", DropoutAttributes{0.1, 77}, {Wide()}}};
    op.timing = {Elements(), [](At at) {
                   return OpCase{"", DropoutAttributes{0.1, 7}, {F32({at[0]})}};
                 }};
    return op;
  }();
  return op;
}

Tensor Gelu(Tensor x) { return ApplyOne(GeluOp(), NoAttributes(), {x}); }
Tensor GeluErf(Tensor x) { return ApplyOne(GeluErfOp(), NoAttributes(), {x}); }
Tensor Silu(Tensor x) { return ApplyOne(SiluOp(), NoAttributes(), {x}); }
Tensor Sigmoid(Tensor x) { return ApplyOne(SigmoidOp(), NoAttributes(), {x}); }
Tensor Tanh(Tensor x) { return ApplyOne(TanhOp(), NoAttributes(), {x}); }
Tensor Relu(Tensor x) { return ApplyOne(ReluOp(), NoAttributes(), {x}); }
Tensor Softmax(Tensor x) { return ApplyOne(SoftmaxOp(), NoAttributes(), {x}); }

// The graph gives the node its key, from its name.
Tensor Dropout(Tensor x, double rate) {
  return rate == 0 ? x : ApplyOne(DropoutOp(), DropoutAttributes{rate, 0}, {x});
}

}  // namespace sluice
