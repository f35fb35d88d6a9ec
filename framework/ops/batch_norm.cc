// Batch normalization over the last dimension of [groups, rows.., channels], with biased variance.
// Groups are a dimension, not an attribute: the reshape in front of the ops splits dimension 0 over
// an axis where each shard holds whole groups, and within a group where there is but one left. So
// index rules say all that is to be said of groups, and no result depends on the mesh.
//
// Statistics are two steps, so that rows of a group that lie on several devices need two reductions
// of one number a channel, and results do not depend on how they lie but for rounding:
//   mean = sum x / n      variance = sum (x - mean)^2 / n
// One pass that adds up x and x^2 would save reading x once, and lose all digits of the variance
// where the mean is large beside it; sums of a shard about its own mean would be accurate, but what
// joins them is no sum, and boxing adds up.
//
// The gradient of the whole chain is taken at batch_norm where its statistics are those of x, from
// two sums over the rows that gamma and beta need anyway. Else, and through batch_variance alone,
// the gradients are those of each op as it stands.
#include <cmath>
#include <string>
#include <utility>

#include "framework/ops/cases.h"
#include "framework/ops/inference.h"
#include "framework/ops/op_defs.h"
#include "framework/ops/ops.h"
#include "framework/ops/reference.h"

namespace sluice {
namespace {

int64_t Last(const Shape& shape) { return shape[shape.rank() - 1]; }
Shape Channels(const Shape& x) { return {Last(x)}; }
Shape GroupsByChannels(const Shape& x) { return {x[0], Last(x)}; }

TensorType PerGroup(const TensorType& x) {
  return {StatisticsType(x.dtype), GroupsByChannels(x.shape)};
}

// Rows of a group, of the logical tensor.
int64_t RowsOfGroup(const Shape& x) {
  int64_t rows = 1;
  for (int d = 1; d + 1 < x.rank(); ++d) rows *= x[d];
  return rows;
}

absl::Status CheckX(absl::string_view op, const TensorType& x) {
  RETURN_IF_ERROR(CheckFloat(op, "x", x));
  if (x.shape.rank() >= 3) return absl::OkStatus();
  return Mismatch(op, "expected x of [groups, rows.., channels], got ", TypeText(x));
}

absl::Status CheckPerGroup(absl::string_view op, const TensorType& x,
                           absl::Span<const TensorType> statistics) {
  for (const TensorType& type : statistics) {
    RETURN_IF_ERROR(CheckType(op, "a statistic", PerGroup(x), type));
  }
  return absl::OkStatus();
}

absl::Status CheckPerChannel(absl::string_view op, const TensorType& x,
                             absl::Span<const TensorType> parameters) {
  const TensorType channels = {StatisticsType(x.dtype), Channels(x.shape)};
  for (const TensorType& type : parameters) {
    RETURN_IF_ERROR(CheckType(op, "gamma and beta", channels, type));
  }
  return absl::OkStatus();
}

Port Statistic(const char* name) { return {.name = name, .statistic = true}; }

// The equation in terms of X for all dimensions of x, G for the statistics of groups, C for what
// there is one of for each channel. Factors are named by their place in x, as a reduction's are.
absl::StatusOr<IndexRule> RuleOf(const OpCall& call, int x, absl::string_view equation,
                                 std::vector<std::vector<int>> linear = {}) {
  const std::string all = DimFactors(call.inputs[x].shape.rank());
  std::string written;
  for (const char letter : equation) {
    if (letter == 'X') written += all;
    if (letter == 'G') written += {all.front(), all.back()};
    if (letter == 'C') written += all.back();
    if (letter < 'A' || letter > 'Z') written += letter;
  }
  return IndexRule::Parse(written, std::move(linear));
}

// fn(flat, of_group, of_channel): the place of each element of x, of its group's statistics, and of
// its channel's parameters.
template <typename F>
void ForEachElement(const ShardArray& x, F&& fn) {
  const int last = static_cast<int>(x.box.size()) - 1;
  const int64_t channels = x.box[last].size();
  ForEachIndex(x.box, [&](const Shape& index, int64_t flat) {
    const int64_t channel = index[last] - x.box[last].begin;
    fn(flat, (index[0] - x.box[0].begin) * channels + channel, channel);
  });
}

const std::vector<double>& ValuesOf(const ReferenceCall& call, int input) {
  return call.inputs[input].array.values;
}

double EpsilonOf(const Attributes& attributes) {
  return std::get<NormAttributes>(attributes).epsilon;
}

absl::Status ReferenceVariance(const ReferenceCall& call) {
  const ShardArray& x = call.inputs[0];
  const double rows = static_cast<double>(RowsOfGroup(x.logical.shape));
  ForEachElement(x, [&](int64_t at, int64_t group, int64_t) {
    const double centred = x.array.values[at] - ValuesOf(call, 1)[group];
    call.outputs[0].array.values[group] += centred * centred / rows;
  });
  return absl::OkStatus();
}

// What becomes of y: relu(y + addend), or either alone, or neither.
enum class After { kNothing, kAdd, kRelu, kAddRelu };
constexpr bool Adds(After after) { return after == After::kAdd || after == After::kAddRelu; }
constexpr bool Rectifies(After after) { return after == After::kRelu || after == After::kAddRelu; }

// y of an element, from x and what stands behind it from input `x` on.
double Normalized(const ReferenceCall& call, int x, int64_t at, int64_t group, int64_t channel) {
  const double centred = ValuesOf(call, x)[at] - ValuesOf(call, x + 1)[group];
  const double deviation = std::sqrt(ValuesOf(call, x + 2)[group] + EpsilonOf(call.attributes));
  return centred / deviation * ValuesOf(call, x + 3)[channel] + ValuesOf(call, x + 4)[channel];
}

template <After after>
absl::Status ReferenceNormalize(const ReferenceCall& call) {
  ForEachElement(call.inputs[0], [&](int64_t at, int64_t group, int64_t channel) {
    double y = Normalized(call, 0, at, group, channel);
    if (Adds(after)) y += ValuesOf(call, 5)[at];
    if (Rectifies(after) && y < 0) y = 0;
    call.outputs[0].array.values[at] = y;
  });
  return absl::OkStatus();
}

// dy(at, group, channel) of each element.
template <typename F>
absl::Status ReferenceSums(const ReferenceCall& call, F&& dy_at) {
  const ShardArray& x = call.inputs[1];
  const double epsilon = EpsilonOf(call.attributes);
  ForEachElement(x, [&](int64_t at, int64_t group, int64_t channel) {
    const double centred = x.array.values[at] - ValuesOf(call, 2)[group];
    const double dy = dy_at(at, group, channel);
    call.outputs[0].array.values[group] +=
        dy * centred / std::sqrt(ValuesOf(call, 3)[group] + epsilon);
    call.outputs[1].array.values[group] += dy;
  });
  return absl::OkStatus();
}

template <After after>
absl::Status ReferenceParameterGradient(const ReferenceCall& call) {
  return ReferenceSums(call, [&](int64_t at, int64_t group, int64_t channel) {
    if (Adds(after)) {
      double dy = ValuesOf(call, 4)[at];
      if (call.inputs.size() > 5) dy += ValuesOf(call, 5)[at];
      return call.outputs[2].array.values[at] = ValuesOf(call, 0)[at] > 0 ? dy : 0;
    }
    const bool passes = !Rectifies(after) || Normalized(call, 1, at, group, channel) > 0;
    return passes ? ValuesOf(call, 0)[at] : 0;
  });
}

template <After after>
absl::Status ReferenceGradient(const ReferenceCall& call) {
  constexpr int kSums = after == After::kRelu ? 6 : 5;
  const ShardArray& x = call.inputs[1];
  const double epsilon = EpsilonOf(call.attributes);
  const double rows = static_cast<double>(RowsOfGroup(x.logical.shape));
  ForEachElement(x, [&](int64_t at, int64_t group, int64_t channel) {
    const double rstd = 1 / std::sqrt(ValuesOf(call, 3)[group] + epsilon);
    const double normal = (x.array.values[at] - ValuesOf(call, 2)[group]) * rstd;
    const double mean_slope =
        (ValuesOf(call, kSums + 1)[group] + normal * ValuesOf(call, kSums)[group]) / rows;
    const bool passes = !Rectifies(after) || Normalized(call, 1, at, group, channel) > 0;
    call.outputs[0].array.values[at] =
        ((passes ? ValuesOf(call, 0)[at] : 0) - mean_slope) * rstd * ValuesOf(call, 4)[channel];
  });
  return absl::OkStatus();
}

Shape InnerDims(const Shape& x) {
  Shape dims;
  for (int d = 1; d + 1 < x.rank(); ++d) dims.Append(d);
  return dims;
}

// What is one a group and channel, for every row.
Tensor OverRows(Tensor statistic, const Shape& x) {
  Shape ones = x;
  for (int d = 1; d + 1 < x.rank(); ++d) ones[d] = 1;
  return Reshape(statistic, ones);
}

void VarianceGradient(const Node&, absl::Span<const Tensor> inputs, absl::Span<const Tensor>,
                      absl::Span<const Tensor> dy, std::vector<Gradient>* dx) {
  const Tensor &x = inputs[0], &mean = inputs[1];
  const Shape& shape = x.shape();
  const Tensor slope = Scale(dy[0], 2 / static_cast<double>(RowsOfGroup(shape)));
  const Tensor wide = Cast(x, mean.dtype()) - OverRows(mean, shape);
  const Tensor from_x = wide * OverRows(slope, shape);
  (*dx)[0] = Dense(Cast(from_x, x.dtype()));
  (*dx)[1] = Dense(Scale(ReduceSum(from_x, InnerDims(shape)), -1));
}

// Whether the statistics are those of x itself.
bool AreOf(Tensor x, Tensor mean, Tensor variance) {
  const Graph& graph = *x.graph();
  const Node& maker = graph.node(graph.tensor(variance.id()).producer);
  if (maker.op != &BatchVarianceOp() || maker.inputs[0] != x.id()) return false;
  const Node& of_mean = graph.node(graph.tensor(mean.id()).producer);
  return maker.inputs[1] == mean.id() && of_mean.op == &ReduceOp() && of_mean.inputs[0] == x.id() &&
         std::get<ReduceAttributes>(of_mean.attributes).mean;
}

void BatchNormGradient(const Node& node, absl::Span<const Tensor> inputs, absl::Span<const Tensor>,
                       absl::Span<const Tensor> dy, std::vector<Gradient>* dx) {
  const Tensor &x = inputs[0], &mean = inputs[1], &variance = inputs[2], &gamma = inputs[3];
  const std::vector<Tensor> sums =
      Apply(BatchNormParameterGradientOp(), node.attributes, {dy[0], x, mean, variance});
  if (!Present(sums)) return;
  (*dx)[3] = Dense(ReduceSum(sums[0], {0}));
  (*dx)[4] = Dense(ReduceSum(sums[1], {0}));
  if (AreOf(x, mean, variance)) {
    (*dx)[0] = Dense(ApplyOne(BatchNormGradientOp(), node.attributes,
                              {dy[0], x, mean, variance, gamma, sums[0], sums[1]}));
    return;
  }
  const Tensor epsilon = Fill(x.graph(), EpsilonOf(node.attributes), {}, variance.dtype());
  const Tensor deviation = Sqrt(variance + epsilon), slope = gamma / deviation;
  const Tensor from_dy = Cast(dy[0], slope.dtype()) * OverRows(slope, x.shape());
  (*dx)[0] = Dense(Cast(from_dy, x.dtype()));
  (*dx)[1] = Dense(Scale(slope * sums[1], -1));
  (*dx)[2] = Dense(Scale(slope / deviation * sums[0], -0.5));
}

OpDef MakeOp(const char* name, std::vector<Port> inputs, std::vector<Port> outputs) {
  OpDef op;
  op.name = name;
  op.inputs = std::move(inputs);
  op.outputs = std::move(outputs);
  op.attributes = NormAttributes();
  op.computes_in = ComputesIn::kEither;
  return op;
}

// x, what there is for each group, and for each channel.
struct Operands {
  TensorType x, group, channel;
};
Operands Rows() { return {F32({2, 5, 3}), F32({2, 3}), F32({3})}; }
Operands Image() { return {F32({3, 2, 2, 5}), F32({3, 5}), F32({5})}; }
Operands Large() { return {F32({2, 301, 67}), F32({2, 67}), F32({67})}; }
Operands Tall() { return {F32({1, 2207, 16}), F32({1, 16}), F32({16})}; }
Operands Timed(At at) { return {F32({1, at[0], at[1]}), F32({1, at[1]}), F32({at[1]})}; }

// Of so many sums over the rows of each group and channel.
int64_t SumsScratch(const TensorType& x, int64_t sums) {
  const int64_t groups = x.shape[0], channels = x.shape[x.shape.rank() - 1];
  const int64_t rows = x.shape.NumElements() / std::max<int64_t>(groups * channels, 1);
  return BlockSumsScratch(groups, rows, channels, sums);
}

// Where there is a relu, both signs have to come. One range is that of variances too, and epsilon
// then keeps them positive.
struct Cases {
  NormAttributes rows, rest;
  double low, small_high, large_high;
};
constexpr Cases CasesOf(After after) {
  return Rectifies(after) ? Cases{{3}, {2.5}, -2, 2, 2} : Cases{{1e-3}, {}, 0.1, 2, 9};
}

// operands(Operands): the types of the inputs.
void AddCases(After after, Types (*operands)(const Operands&), OpDef* op) {
  const Cases of = CasesOf(after);
  op->cases = {{"rows", of.rows, operands(Rows()), of.low, of.small_high},
               {"image", of.rest, operands(Image()), of.low, of.small_high}};
  op->large_cases = {{"", of.rest, operands(Large()), of.low, of.large_high},
                     {"", of.rest, operands(Tall()), of.low, of.large_high}};
}

template <After after>
OpDef MakeNormalize() {
  static constexpr const char* kName = after == After::kNothing ? "batch_norm"
                                       : after == After::kAdd   ? "batch_norm_add"
                                       : after == After::kRelu  ? "batch_norm_relu"
                                                                : "batch_norm_add_relu";
  std::vector<Port> inputs = {
      {"x"}, Statistic("mean"), Statistic("variance"), Statistic("gamma"), Statistic("beta")};
  if (Adds(after)) inputs.push_back({"addend"});
  OpDef op = MakeOp(kName, std::move(inputs), {{"y"}});
  op.infer = [](const OpCall& call) -> absl::StatusOr<Types> {
    RETURN_IF_ERROR(CheckCount(kName, call, Adds(after) ? 6 : 5));
    RETURN_IF_ERROR(CheckX(kName, call.inputs[0]));
    RETURN_IF_ERROR(CheckPerGroup(kName, call.inputs[0], call.inputs.subspan(1, 2)));
    RETURN_IF_ERROR(CheckPerChannel(kName, call.inputs[0], call.inputs.subspan(3, 2)));
    if (Adds(after)) RETURN_IF_ERROR(CheckType(kName, "addend", call.inputs[0], call.inputs[5]));
    return Types{call.inputs[0]};
  };
  op.rule = [](const OpCall& call) {
    return RuleOf(call, 0, Adds(after) ? "X,G,G,C,C,X->X" : "X,G,G,C,C->X");
  };
  op.cost = [](const OpCall& call) {
    return RowsCost(call, call.inputs[0], 3 + Adds(after) + Rectifies(after),
                    BytesOf(call.inputs.subspan(1, 1)) + 4096);
  };
  op.reference = ReferenceNormalize<after>;
  static constexpr auto kOperands = [](const Operands& of) {
    Types types = {of.x, of.group, of.group, of.channel, of.channel};
    if (Adds(after)) types.push_back(of.x);
    return types;
  };
  AddCases(after, kOperands, &op);
  op.timing = {RowsByLength(), [](At at) {
                 const Cases of = CasesOf(after);
                 return OpCase{"", of.rest, kOperands(Timed(at)), of.low, of.small_high};
               }};
  return op;
}

// Where an addend is added, the mask of relu is not known from x: y has it. And dz, what goes on to
// the addend, is made here, in one pass with the sums and with that of the terms of dy.
template <After after>
OpDef MakeParameterGradient() {
  static constexpr const char* kName = after == After::kNothing ? "batch_norm_parameter_gradient"
                                       : after == After::kRelu
                                           ? "batch_norm_relu_parameter_gradient"
                                           : "batch_norm_add_relu_parameter_gradient";
  std::vector<Port> inputs = {
      {Adds(after) ? "y" : "dy"}, {"x"}, Statistic("mean"), Statistic("variance")};
  std::vector<Port> outputs = {{"dgamma"}, {"dbeta"}};
  if (after == After::kRelu) inputs.insert(inputs.end(), {Statistic("gamma"), Statistic("beta")});
  if (Adds(after)) inputs.push_back({.name = "dy", .variadic = true}), outputs.push_back({"dz"});
  OpDef op = MakeOp(kName, std::move(inputs), std::move(outputs));
  op.infer = [](const OpCall& call) -> absl::StatusOr<Types> {
    const bool two = Adds(after) && call.inputs.size() > 5;
    const size_t count = after == After::kNothing ? 4 : after == After::kRelu ? 6 : 5;
    RETURN_IF_ERROR(CheckCount(kName, call, count + two));
    const TensorType& x = call.inputs[1];
    RETURN_IF_ERROR(CheckX(kName, x));
    RETURN_IF_ERROR(CheckType(kName, Adds(after) ? "y" : "dy", x, call.inputs[0]));
    RETURN_IF_ERROR(CheckPerGroup(kName, x, call.inputs.subspan(2, 2)));
    Types types = {PerGroup(x), PerGroup(x)};
    if (after == After::kRelu) RETURN_IF_ERROR(CheckPerChannel(kName, x, call.inputs.subspan(4)));
    if (!Adds(after)) return types;
    for (const TensorType& dy : call.inputs.subspan(4)) {
      RETURN_IF_ERROR(CheckType(kName, "dy", x, dy));
    }
    types.push_back(x);
    return types;
  };
  op.rule = [](const OpCall& call) {
    if (after == After::kNothing) return RuleOf(call, 1, "X,X,G,G->G,G", {{0}});
    if (after == After::kRelu) return RuleOf(call, 1, "X,X,G,G,C,C->G,G", {{0}});
    return call.inputs.size() > 5 ? RuleOf(call, 1, "X,X,G,G,X,X->G,G,X", {{4, 5}})
                                  : RuleOf(call, 1, "X,X,G,G,X->G,G,X", {{4}});
  };
  op.cost = [](const OpCall& call) {
    return RowsCost(call, call.inputs[0], after == After::kNothing ? 4 : 7,
                    BytesOf(call.outputs.first(2)) + SumsScratch(call.inputs[0], 2));
  };
  op.reference = ReferenceParameterGradient<after>;
  static constexpr auto kOperands = [](const Operands& of) {
    Types types = {of.x, of.x, of.group, of.group};
    if (after == After::kRelu) types.insert(types.end(), {of.channel, of.channel});
    if (Adds(after)) types.insert(types.end(), {of.x, of.x});
    return types;
  };
  AddCases(after, kOperands, &op);
  if (Adds(after)) {
    OpCase one_term = op.cases[1];
    one_term.name = "one term";
    one_term.inputs.pop_back();
    op.cases.push_back(std::move(one_term));
  }
  op.timing = {RowsByLength(), [](At at) {
                 const Cases of = CasesOf(after);
                 return OpCase{"", of.rest, kOperands(Timed(at)), of.low, of.small_high};
               }};
  return op;
}

template <After after>
OpDef MakeGradient() {
  static constexpr bool kRelu = Rectifies(after);
  static constexpr const char* kName = kRelu ? "batch_norm_relu_gradient" : "batch_norm_gradient";
  std::vector<Port> inputs = {
      {"dy"}, {"x"}, Statistic("mean"), Statistic("variance"), Statistic("gamma")};
  if (kRelu) inputs.push_back(Statistic("beta"));
  inputs.insert(inputs.end(), {Statistic("dgamma"), Statistic("dbeta")});
  OpDef op = MakeOp(kName, std::move(inputs), {{"dx"}});
  op.infer = [](const OpCall& call) -> absl::StatusOr<Types> {
    RETURN_IF_ERROR(CheckCount(kName, call, kRelu ? 8 : 7));
    const TensorType& x = call.inputs[1];
    RETURN_IF_ERROR(CheckX(kName, x));
    RETURN_IF_ERROR(CheckType(kName, "dy", x, call.inputs[0]));
    RETURN_IF_ERROR(CheckPerGroup(kName, x, call.inputs.subspan(2, 2)));
    RETURN_IF_ERROR(CheckPerChannel(kName, x, call.inputs.subspan(4, kRelu ? 2 : 1)));
    RETURN_IF_ERROR(CheckPerGroup(kName, x, call.inputs.subspan(kRelu ? 6 : 5)));
    return Types{x};
  };
  op.rule = [](const OpCall& call) {
    return kRelu ? RuleOf(call, 1, "X,X,G,G,C,C,G,G->X", {{0, 6, 7}})
                 : RuleOf(call, 1, "X,X,G,G,C,G,G->X", {{0, 5, 6}, {4}});
  };
  op.cost = [](const OpCall& call) {
    return RowsCost(call, call.inputs[0], kRelu ? 9 : 6,
                    3 * BytesOf(call.inputs.subspan(2, 1)) + 4096);
  };
  op.reference = ReferenceGradient<after>;
  static constexpr auto kOperands = [](const Operands& of) {
    Types types = {of.x, of.x, of.group, of.group, of.channel};
    if (kRelu) types.push_back(of.channel);
    types.insert(types.end(), {of.group, of.group});
    return types;
  };
  AddCases(after, kOperands, &op);
  op.timing = {RowsByLength(), [](At at) {
                 const Cases of = CasesOf(after);
                 return OpCase{"", of.rest, kOperands(Timed(at)), of.low, of.small_high};
               }};
  return op;
}

}  // namespace

const OpDef& BatchVarianceOp() {
  static const OpDef op = [] {
    OpDef op = MakeOp("batch_variance", {{"x"}, Statistic("mean")}, {{"variance"}});
    op.attributes = NoAttributes();
    op.infer = [](const OpCall& call) -> absl::StatusOr<Types> {
      RETURN_IF_ERROR(CheckCount("batch_variance", call, 2));
      RETURN_IF_ERROR(CheckX("batch_variance", call.inputs[0]));
      RETURN_IF_ERROR(CheckPerGroup("batch_variance", call.inputs[0], call.inputs.subspan(1)));
      return Types{PerGroup(call.inputs[0])};
    };
    op.rule = [](const OpCall& call) { return RuleOf(call, 0, "X,G->G"); };
    op.gradient = VarianceGradient;
    op.cost = [](const OpCall& call) {
      return RowsCost(call, call.inputs[0], 3, SumsScratch(call.inputs[0], 1));
    };
    op.reference = ReferenceVariance;
    const auto operands = [](const Operands& of) { return Types{of.x, of.group}; };
    op.cases = {{"rows", NoAttributes(), operands(Rows())},
                {"image", NoAttributes(), operands(Image())}};
    // Squares of squares would soon be infinite in random graphs, which take ops by such cases; the
    // test of gradients has it with its mean.
    for (OpCase& op_case : op.cases) op_case.check_gradient = false;
    op.large_cases = {{"", NoAttributes(), operands(Large())},
                      {"", NoAttributes(), operands(Tall())}};
    op.timing = {RowsByLength(), [](At at) {
                   const Operands of = Timed(at);
                   return OpCase{"", NoAttributes(), {of.x, of.group}};
                 }};
    return op;
  }();
  return op;
}

const OpDef& BatchNormOp() {
  static const OpDef op = [] {
    OpDef op = MakeNormalize<After::kNothing>();
    op.gradient = BatchNormGradient;
    return op;
  }();
  return op;
}
const OpDef& BatchNormAddOp() {
  static const OpDef op = MakeNormalize<After::kAdd>();
  return op;
}
const OpDef& BatchNormReluOp() {
  static const OpDef op = MakeNormalize<After::kRelu>();
  return op;
}
const OpDef& BatchNormAddReluOp() {
  static const OpDef op = MakeNormalize<After::kAddRelu>();
  return op;
}

const OpDef& BatchNormParameterGradientOp() {
  static const OpDef op = MakeParameterGradient<After::kNothing>();
  return op;
}
const OpDef& BatchNormReluParameterGradientOp() {
  static const OpDef op = MakeParameterGradient<After::kRelu>();
  return op;
}
const OpDef& BatchNormAddReluParameterGradientOp() {
  static const OpDef op = MakeParameterGradient<After::kAddRelu>();
  return op;
}

const OpDef& BatchNormGradientOp() {
  static const OpDef op = MakeGradient<After::kNothing>();
  return op;
}
const OpDef& BatchNormReluGradientOp() {
  static const OpDef op = MakeGradient<After::kRelu>();
  return op;
}

const OpDef& MovingAverageOp() {
  static const OpDef op = [] {
    OpDef op;
    op.name = "moving_average";
    op.inputs = {{.name = "variable", .updates = true}, {"value"}};
    op.attributes = AverageAttributes();
    op.infer = [](const OpCall& call) -> absl::StatusOr<Types> {
      RETURN_IF_ERROR(CheckCount("moving_average", call, 2));
      RETURN_IF_ERROR(CheckFloat("moving_average", "variable", call.inputs[0]));
      RETURN_IF_ERROR(CheckType("moving_average", "value", call.inputs[0], call.inputs[1]));
      return Types();
    };
    op.rule = [](const OpCall&) { return IndexRule::Parse("...,...->"); };
    op.cost = [](const OpCall& call) { return ElementwiseCost(call, 3); };
    op.reference = [](const ReferenceCall& call) {
      const double momentum = std::get<AverageAttributes>(call.attributes).momentum;
      std::vector<double>& variable = call.inputs[0].array.values;
      for (size_t i = 0; i < variable.size(); ++i) {
        variable[i] = (1 - momentum) * variable[i] + momentum * ValuesOf(call, 1)[i];
      }
      return absl::OkStatus();
    };
    op.cases = {{"row", AverageAttributes{0.3}, {F32({5}), F32({5})}}};
    op.large_cases = {{"", AverageAttributes{0.3}, {Wide(), Wide()}}};
    op.timing = NotTimed(kMovesBytes);
    return op;
  }();
  return op;
}

BatchNormResult BatchNorm(Tensor x, Tensor gamma, Tensor beta, int64_t groups, double epsilon) {
  if (!x) return {};
  const Shape& shape = x.shape();
  if (shape.rank() < 2 || groups < 1 || shape[0] % groups != 0) {
    Refuse(x, "batch_norm",
           absl::StrCat("expected x of [batch,.., channels] and a number of groups that divides "
                        "the batch, got ",
                        TypeText(x.type()), " and ", groups, " groups"));
    return {};
  }
  Shape by_group = {groups, shape[0] / groups};
  for (int d = 1; d < shape.rank(); ++d) by_group.Append(shape[d]);
  if (RowsOfGroup(by_group) < 2) {
    Refuse(x, "batch_norm",
           absl::StrCat("expected at least two values of each channel in a group, got ",
                        TypeText(x.type()), " in ", groups, " groups"));
    return {};
  }
  const Tensor grouped = Reshape(x, by_group);
  BatchNormResult result;
  result.mean = ReduceMean(grouped, InnerDims(by_group));
  result.variance = ApplyOne(BatchVarianceOp(), NoAttributes(), {grouped, result.mean});
  result.y = Reshape(ApplyOne(BatchNormOp(), NormAttributes{epsilon},
                              {grouped, result.mean, result.variance, gamma, beta}),
                     shape);
  return result;
}

Tensor BatchNormBy(Tensor x, Tensor mean, Tensor variance, Tensor gamma, Tensor beta,
                   double epsilon) {
  if (!Present({x, mean, variance})) return Tensor();
  const Shape& shape = x.shape();
  Shape one = {1};
  for (int64_t extent : shape) one.Append(extent);
  const Shape row = {1, mean.shape().NumElements()};
  return Reshape(
      ApplyOne(BatchNormOp(), NormAttributes{epsilon},
               {Reshape(x, one), Reshape(mean, row), Reshape(variance, row), gamma, beta}),
      shape);
}

void MovingAverage(Tensor variable, Tensor value, double momentum) {
  if (!Present({variable, value})) return;
  Graph* const graph = variable.graph();
  const Graph::Context outer = graph->context();
  Graph::Context update;
  update.phase = Phase::kUpdate;
  update.scope = graph->node(graph->tensor(variable.id()).producer).name;
  graph->set_context(update);
  Apply(MovingAverageOp(), AverageAttributes{momentum}, {variable, value});
  graph->set_context(outer);
}

}  // namespace sluice
