// Causal attention over q, k, v [batch, time, heads, size]. The log-sum-exp of each score row is an
// output, for the gradient.
#include <algorithm>
#include <cmath>

#include "framework/ops/cases.h"
#include "framework/ops/inference.h"
#include "framework/ops/op_defs.h"
#include "framework/ops/ops.h"
#include "framework/ops/reference.h"

namespace sluice {
namespace {

absl::Status CheckOperands(absl::string_view op, const OpCall& call,
                           std::initializer_list<int> like_q) {
  const TensorType& q = call.inputs[0];
  RETURN_IF_ERROR(CheckFloat(op, "q", q));
  if (q.shape.rank() != 4) {
    return Mismatch(op, "expected q of [batch,time,heads,size], got ", TypeText(q));
  }
  for (int i : like_q) {
    RETURN_IF_ERROR(CheckType(op, "every operand", q, call.inputs[i]));
  }
  return absl::OkStatus();
}

TensorType LogSumExpType(const TensorType& q) {
  return {StatisticsType(q.dtype), Leading(q.shape, 1)};
}

// Scores and weighted sums over the causal half, each 2 FLOPs an element.
Cost CostOfProducts(const OpCall& call, int64_t products) {
  const Shape& q = call.inputs[0].shape;
  const int64_t time = q[1], size = q[3];
  // A few score tiles for each of many threads, and f32 copies of a head of every operand.
  const int64_t scratch = CountOf({64 * 4, time * std::min<int64_t>(time, 128) + 13 * time * size});
  return {CountOf({products, q[0], q[2], time, time, size}),
          BytesOf(call.inputs) + BytesOf(call.outputs),
          scratch,
          {q[0] * q[2], time, size}};
}

// The rows of one (batch, head) in an array [b, t, h, d].
struct Rows {
  int64_t first, step, size;
  Rows(const Shape& shape, int64_t b, int64_t h)
      : first((b * shape[1] * shape[2] + h) * shape[3]),
        step(shape[2] * shape[3]),
        size(shape[3]) {}
  int64_t At(int64_t t) const { return first + t * step; }
};

double Dot(const Array& a, int64_t at_a, const Array& b, int64_t at_b, int64_t size) {
  double sum = 0;
  for (int64_t d = 0; d < size; ++d) sum += a.values[at_a + d] * b.values[at_b + d];
  return sum;
}

absl::Status ReferenceAttention(const ReferenceCall& call) {
  const Array &q = call.inputs[0].array, &k = call.inputs[1].array, &v = call.inputs[2].array;
  Array &y = call.outputs[0].array, &logsumexp = call.outputs[1].array;
  const double scale = std::get<AttentionAttributes>(call.attributes).scale;
  const int64_t time = q.shape[1], heads = q.shape[2];
  std::vector<double> weights(time);
  for (int64_t b = 0; b < q.shape[0]; ++b) {
    for (int64_t h = 0; h < heads; ++h) {
      const Rows rows(q.shape, b, h);
      for (int64_t t = 0; t < time; ++t) {
        double max = IdentityOf(Reduction::kMax), sum = 0;
        for (int64_t s = 0; s <= t; ++s) {
          weights[s] = scale * Dot(q, rows.At(t), k, rows.At(s), rows.size);
          max = Reduce(Reduction::kMax, max, weights[s]);
        }
        for (int64_t s = 0; s <= t; ++s) sum += weights[s] = std::exp(weights[s] - max);
        for (int64_t s = 0; s <= t; ++s) {
          for (int64_t d = 0; d < rows.size; ++d) {
            y.values[rows.At(t) + d] += weights[s] / sum * v.values[rows.At(s) + d];
          }
        }
        logsumexp.values[(b * time + t) * heads + h] = max + std::log(sum);
      }
    }
  }
  return absl::OkStatus();
}

absl::Status ReferenceAttentionGradient(const ReferenceCall& call) {
  const Array &q = call.inputs[0].array, &k = call.inputs[1].array, &v = call.inputs[2].array;
  const Array &y = call.inputs[3].array, &logsumexp = call.inputs[4].array;
  const Array& dy = call.inputs[5].array;
  std::vector<double>& dq = call.outputs[0].array.values;
  std::vector<double>& dk = call.outputs[1].array.values;
  std::vector<double>& dv = call.outputs[2].array.values;
  const double scale = std::get<AttentionAttributes>(call.attributes).scale;
  const int64_t time = q.shape[1], heads = q.shape[2];
  std::vector<double> weights(time), slopes(time);
  for (int64_t b = 0; b < q.shape[0]; ++b) {
    for (int64_t h = 0; h < heads; ++h) {
      const Rows rows(q.shape, b, h);
      for (int64_t t = 0; t < time; ++t) {
        const int64_t at = rows.At(t);
        // Slopes of a row sum to zero. dy times y sees to that but for its rounding, which all keys
        // have in common and which would swamp small slopes: their mean is taken off once more.
        const double partial = Dot(dy, at, y, at, rows.size);
        double sum = 0, mean = 0;
        for (int64_t s = 0; s <= t; ++s) {
          const int64_t from = rows.At(s);
          weights[s] = std::exp(scale * Dot(q, at, k, from, rows.size) -
                                logsumexp.values[(b * time + t) * heads + h]);
          slopes[s] = Dot(dy, at, v, from, rows.size) - partial;
          sum += weights[s];
          mean += weights[s] * slopes[s];
        }
        mean /= sum;
        for (int64_t s = 0; s <= t; ++s) {
          const int64_t from = rows.At(s);
          const double weight = weights[s], slope = scale * weight * (slopes[s] - mean);
          for (int64_t d = 0; d < rows.size; ++d) {
            dq[at + d] += slope * k.values[from + d];
            dk[from + d] += slope * q.values[at + d];
            dv[from + d] += weight * dy.values[at + d];
          }
        }
      }
    }
  }
  return absl::OkStatus();
}

void AttentionGradient(const Node& node, absl::Span<const Tensor> inputs,
                       absl::Span<const Tensor> outputs, absl::Span<const Tensor> dy,
                       std::vector<Gradient>* dx) {
  if (dy[1]) {
    Refuse(outputs[0], "attention", "no gradient flows through the log-sum-exp");
    return;
  }
  const std::vector<Tensor> gradients =
      Apply(AttentionGradientOp(), node.attributes,
            {inputs[0], inputs[1], inputs[2], outputs[0], outputs[1], dy[0]});
  for (int i = 0; i < 3; ++i) (*dx)[i] = Dense(gradients[i]);
}

AttentionAttributes ScaleFor(const Shape& q) { return {1 / std::sqrt(static_cast<double>(q[3]))}; }
// The smallest is about the size of a tile; others have a few, and a rest.
std::vector<Shape> LargeHeads() {
  return {{2, 64, 2, 32}, {1, 128, 3, 64}, {2, 77, 1, 24},
          {1, 33, 2, 40}, {3, 1, 2, 16},   {1, 150, 1, 80}};
}

}  // namespace

const OpDef& AttentionOp() {
  static const OpDef op = [] {
    OpDef op;
    op.name = "attention";
    op.inputs = {{"q"}, {"k"}, {"v"}};
    op.computes_in = ComputesIn::kLow;
    op.outputs = {{"y"}, {"logsumexp"}};
    op.attributes = AttentionAttributes();
    op.infer = [](const OpCall& call) -> absl::StatusOr<Types> {
      RETURN_IF_ERROR(CheckCount("attention", call, 3));
      RETURN_IF_ERROR(CheckOperands("attention", call, {1, 2}));
      return Types{call.inputs[0], LogSumExpType(call.inputs[0])};
    };
    op.rule = [](const OpCall&) { return IndexRule::Parse("bThD,bThD,bThD->bThD,bTh"); };
    op.gradient = AttentionGradient;
    op.cost = [](const OpCall& call) { return CostOfProducts(call, 2); };
    op.reference = ReferenceAttention;
    const TensorType even = {DType::kF32, {2, 5, 3, 4}}, one = {DType::kF32, {3, 7, 1, 3}};
    op.cases = {{"heads", AttentionAttributes{0.5}, {even, even, even}},
                {"one_head", AttentionAttributes{0.577}, {one, one, one}}};
    for (const Shape& shape : LargeHeads()) {
      op.large_cases.push_back({"", ScaleFor(shape), Equal(3, F32(shape)), -3, 3});
    }
    op.timing = {
        Heads(), [](At at) {
          return OpCase{"", AttentionAttributes{0.125}, Equal(3, F32({at[0], at[1], 1, at[2]}))};
        }};
    return op;
  }();
  return op;
}

const OpDef& AttentionGradientOp() {
  static const OpDef op = [] {
    OpDef op;
    op.name = "attention_gradient";
    op.inputs = {{"q"}, {"k"}, {"v"}, {"y"}, {.name = "logsumexp", .statistic = true}, {"dy"}};
    op.computes_in = ComputesIn::kLow;
    op.outputs = {{"dq"}, {"dk"}, {"dv"}};
    op.attributes = AttentionAttributes();
    op.infer = [](const OpCall& call) -> absl::StatusOr<Types> {
      RETURN_IF_ERROR(CheckCount("attention_gradient", call, 6));
      RETURN_IF_ERROR(CheckOperands("attention_gradient", call, {1, 2, 3, 5}));
      const TensorType& q = call.inputs[0];
      RETURN_IF_ERROR(
          CheckType("attention_gradient", "logsumexp", LogSumExpType(q), call.inputs[4]));
      return Types{q, q, q};
    };
    op.rule = [](const OpCall&) {
      return IndexRule::Parse("bThD,bThD,bThD,bThD,bTh,bThD->bThD,bThD,bThD", {{5}});
    };
    op.cost = [](const OpCall& call) { return CostOfProducts(call, 5); };
    op.reference = ReferenceAttentionGradient;
    const TensorType q = {DType::kF32, {2, 5, 3, 4}}, rows = {DType::kF32, {2, 5, 3}};
    op.cases = {{"heads", AttentionAttributes{0.5}, {q, q, q, q, rows, q}, -1, 1}};
    for (const Shape& shape : LargeHeads()) {
      const TensorType q = F32(shape), rows = F32(Leading(shape, 1));
      op.large_cases.push_back({"", ScaleFor(shape), {q, q, q, q, rows, q}, -1, 1});
    }
    op.timing = {
        Heads(), [](At at) {
          const TensorType q = F32({at[0], at[1], 1, at[2]}), rows = F32({at[0], at[1], 1});
          return OpCase{"", AttentionAttributes{0.125}, {q, q, q, q, rows, q}};
        }};
    return op;
  }();
  return op;
}

Tensor CausalAttention(Tensor q, Tensor k, Tensor v) {
  if (!Present({q, k, v})) return Tensor();
  const int rank = q.shape().rank();
  const double size = rank > 0 ? static_cast<double>(q.shape()[rank - 1]) : 1;
  return ApplyOne(AttentionOp(), AttentionAttributes{1 / std::sqrt(size)}, {q, k, v});
}

}  // namespace sluice
