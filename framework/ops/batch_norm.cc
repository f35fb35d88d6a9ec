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
  for (const char word : equation) {
    if (word == 'X') written += all;
    if (word == 'G') written += {all.front(), all.back()};
    if (word == 'C') written += all.back();
    if (word < 'A' || word > 'Z') written += word;
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

absl::Status ReferenceBatchNorm(const ReferenceCall& call) {
  const ShardArray& x = call.inputs[0];
  const double epsilon = EpsilonOf(call.attributes);
  ForEachElement(x, [&](int64_t at, int64_t group, int64_t channel) {
    const double centred = x.array.values[at] - ValuesOf(call, 1)[group];
    const double normal = centred / std::sqrt(ValuesOf(call, 2)[group] + epsilon);
    call.outputs[0].array.values[at] =
        normal * ValuesOf(call, 3)[channel] + ValuesOf(call, 4)[channel];
  });
  return absl::OkStatus();
}

absl::Status ReferenceParameterGradient(const ReferenceCall& call) {
  const ShardArray& x = call.inputs[1];
  const double epsilon = EpsilonOf(call.attributes);
  ForEachElement(x, [&](int64_t at, int64_t group, int64_t) {
    const double centred = x.array.values[at] - ValuesOf(call, 2)[group];
    const double dy = ValuesOf(call, 0)[at];
    call.outputs[0].array.values[group] +=
        dy * centred / std::sqrt(ValuesOf(call, 3)[group] + epsilon);
    call.outputs[1].array.values[group] += dy;
  });
  return absl::OkStatus();
}

absl::Status ReferenceGradient(const ReferenceCall& call) {
  const ShardArray& x = call.inputs[1];
  const double epsilon = EpsilonOf(call.attributes);
  const double rows = static_cast<double>(RowsOfGroup(x.logical.shape));
  ForEachElement(x, [&](int64_t at, int64_t group, int64_t channel) {
    const double rstd = 1 / std::sqrt(ValuesOf(call, 3)[group] + epsilon);
    const double normal = (x.array.values[at] - ValuesOf(call, 2)[group]) * rstd;
    const double mean_slope = (ValuesOf(call, 6)[group] + normal * ValuesOf(call, 5)[group]) / rows;
    call.outputs[0].array.values[at] =
        (ValuesOf(call, 0)[at] - mean_slope) * rstd * ValuesOf(call, 4)[channel];
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

// Blocks of rows have sums of their own: at most so many, whatever the threads.
constexpr int64_t kBlocks = 16;

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
      return RowsCost(call, call.inputs[0], 3, kBlocks * BytesOf(call.outputs) + 4096);
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
    OpDef op = MakeOp(
        "batch_norm",
        {{"x"}, Statistic("mean"), Statistic("variance"), Statistic("gamma"), Statistic("beta")},
        {{"y"}});
    op.infer = [](const OpCall& call) -> absl::StatusOr<Types> {
      RETURN_IF_ERROR(CheckCount("batch_norm", call, 5));
      RETURN_IF_ERROR(CheckX("batch_norm", call.inputs[0]));
      RETURN_IF_ERROR(CheckPerGroup("batch_norm", call.inputs[0], call.inputs.subspan(1, 2)));
      RETURN_IF_ERROR(CheckPerChannel("batch_norm", call.inputs[0], call.inputs.subspan(3)));
      return Types{call.inputs[0]};
    };
    op.rule = [](const OpCall& call) { return RuleOf(call, 0, "X,G,G,C,C->X"); };
    op.gradient = BatchNormGradient;
    op.cost = [](const OpCall& call) {
      return RowsCost(call, call.inputs[0], 3, BytesOf(call.inputs.subspan(1, 1)) + 4096);
    };
    op.reference = ReferenceBatchNorm;
    const auto operands = [](const Operands& of) {
      return Types{of.x, of.group, of.group, of.channel, of.channel};
    };
    op.cases = {{"rows", NormAttributes{1e-3}, operands(Rows()), 0.1, 2},
                {"image", NormAttributes(), operands(Image()), 0.1, 2}};
    op.large_cases = {{"", NormAttributes(), operands(Large()), 0.1, 9},
                      {"", NormAttributes(), operands(Tall()), 0.1, 9}};
    op.timing = {
        RowsByLength(), [](At at) {
          const Operands of = Timed(at);
          return OpCase{
              "", NormAttributes(), {of.x, of.group, of.group, of.channel, of.channel}, 0.1, 2};
        }};
    return op;
  }();
  return op;
}

const OpDef& BatchNormParameterGradientOp() {
  static const OpDef op = [] {
    OpDef op =
        MakeOp("batch_norm_parameter_gradient",
               {{"dy"}, {"x"}, Statistic("mean"), Statistic("variance")}, {{"dgamma"}, {"dbeta"}});
    op.infer = [](const OpCall& call) -> absl::StatusOr<Types> {
      const char* name = "batch_norm_parameter_gradient";
      RETURN_IF_ERROR(CheckCount(name, call, 4));
      const TensorType& x = call.inputs[1];
      RETURN_IF_ERROR(CheckX(name, x));
      RETURN_IF_ERROR(CheckType(name, "dy", x, call.inputs[0]));
      RETURN_IF_ERROR(CheckPerGroup(name, x, call.inputs.subspan(2)));
      return Types{PerGroup(x), PerGroup(x)};
    };
    op.rule = [](const OpCall& call) { return RuleOf(call, 1, "X,X,G,G->G,G", {{0}}); };
    op.cost = [](const OpCall& call) {
      return RowsCost(call, call.inputs[0], 4, (kBlocks + 1) * BytesOf(call.outputs) + 4096);
    };
    op.reference = ReferenceParameterGradient;
    const auto operands = [](const Operands& of) { return Types{of.x, of.x, of.group, of.group}; };
    op.cases = {{"rows", NormAttributes{1e-3}, operands(Rows()), 0.1, 2},
                {"image", NormAttributes(), operands(Image()), 0.1, 2}};
    op.large_cases = {{"", NormAttributes(), operands(Large()), 0.1, 9},
                      {"", NormAttributes(), operands(Tall()), 0.1, 9}};
    op.timing = {RowsByLength(), [](At at) {
                   const Operands of = Timed(at);
                   return OpCase{"", NormAttributes(), {of.x, of.x, of.group, of.group}, 0.1, 2};
                 }};
    return op;
  }();
  return op;
}

const OpDef& BatchNormGradientOp() {
  static const OpDef op = [] {
    OpDef op = MakeOp("batch_norm_gradient",
                      {{"dy"},
                       {"x"},
                       Statistic("mean"),
                       Statistic("variance"),
                       Statistic("gamma"),
                       Statistic("dgamma"),
                       Statistic("dbeta")},
                      {{"dx"}});
    op.infer = [](const OpCall& call) -> absl::StatusOr<Types> {
      const char* name = "batch_norm_gradient";
      RETURN_IF_ERROR(CheckCount(name, call, 7));
      const TensorType& x = call.inputs[1];
      RETURN_IF_ERROR(CheckX(name, x));
      RETURN_IF_ERROR(CheckType(name, "dy", x, call.inputs[0]));
      RETURN_IF_ERROR(CheckPerGroup(name, x, call.inputs.subspan(2, 2)));
      RETURN_IF_ERROR(CheckPerChannel(name, x, call.inputs.subspan(4, 1)));
      RETURN_IF_ERROR(CheckPerGroup(name, x, call.inputs.subspan(5)));
      return Types{x};
    };
    op.rule = [](const OpCall& call) {
      return RuleOf(call, 1, "X,X,G,G,C,G,G->X", {{0, 5, 6}, {4}});
    };
    op.cost = [](const OpCall& call) {
      return RowsCost(call, call.inputs[0], 6, 3 * BytesOf(call.inputs.subspan(2, 1)) + 4096);
    };
    op.reference = ReferenceGradient;
    const auto operands = [](const Operands& of) {
      return Types{of.x, of.x, of.group, of.group, of.channel, of.group, of.group};
    };
    op.cases = {{"rows", NormAttributes{1e-3}, operands(Rows()), 0.1, 2},
                {"image", NormAttributes(), operands(Image()), 0.1, 2}};
    op.large_cases = {{"", NormAttributes(), operands(Large()), 0.1, 9},
                      {"", NormAttributes(), operands(Tall()), 0.1, 9}};
    op.timing = {RowsByLength(), [](At at) {
                   const Operands of = Timed(at);
                   return OpCase{"",
                                 NormAttributes(),
                                 {of.x, of.x, of.group, of.group, of.channel, of.group, of.group},
                                 0.1,
                                 2};
                 }};
    return op;
  }();
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
