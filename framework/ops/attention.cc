// Attention over q, k, v [batch, time, heads, size]: causal, where a row sees the keys up to its
// own, or padded, where each of a sample's first `length` rows sees the keys of all of them, and
// the rows behind, which hold nothing, are zero. No mask lies in memory. The log-sum-exp of each
// score row is an output, for the gradient. Weights may be dropped, as dropout would drop those of
// an array [batch, heads, queries, keys]; the gradient draws again.
#include <algorithm>
#include <cmath>

#include "framework/ops/cases.h"
#include "framework/ops/inference.h"
#include "framework/ops/op_defs.h"
#include "framework/ops/ops.h"
#include "framework/ops/reference.h"
#include "framework/tensor/random.h"
#include "framework/tensor/score_bytes.h"

namespace sluice {
namespace {

const AttentionAttributes& AttributesOf(const OpCall& call) {
  return std::get<AttentionAttributes>(call.attributes);
}

absl::Status CheckDropout(absl::string_view op, const OpCall& call, bool padded) {
  const AttentionAttributes& a = AttributesOf(call);
  if (!(a.rate >= 0 && a.rate < 1)) {
    return Mismatch(op, "expected a rate of dropout in [0, 1), got ", a.rate);
  }
  if (padded && a.library_draws) {
    return Mismatch(
        op, "expected draws of ours, got library_draws: no library's attention is asked for it");
  }
  return absl::OkStatus();
}

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

// A card's kernel may go by cuDNN in bf16, which has scores of some heads in memory at a time: in
// the workspace of a gradient, and in the mask of what is dropped.
bool HasMask(const OpCall& call) {
  const AttentionAttributes& a = AttributesOf(call);
  return call.inputs[0].dtype == DType::kBF16 && a.rate > 0 && !a.library_draws;
}
int64_t ScoresAtATime(const OpCall& call) {
  const Shape& q = call.inputs[0].shape;
  const int64_t most = kMostScoreBytes / (HasMask(call) ? 2 : 1);
  return std::min(ScoreBytes(CountOf({q[0], q[2]}), q[1]), most);
}
int64_t MaskBytes(const OpCall& call) { return HasMask(call) ? ScoresAtATime(call) : 0; }
// Of what hides padding, two a query and key of some samples.
int64_t PaddingBytes(const OpCall& call, bool causal) {
  const TensorType& q = call.inputs[0];
  if (causal || q.dtype != DType::kBF16) return 0;
  return std::min(CountOf({2, q.shape[0], q.shape[1], q.shape[1]}), kMostScoreBytes);
}

// Scores and weighted sums over the causal half, each 2 FLOPs an element.
Cost CostOfProducts(const OpCall& call, int64_t products) {
  const Shape& q = call.inputs[0].shape;
  const int64_t time = q[1], size = q[3];
  // A few score tiles for each of many threads, and copies of a head of every operand.
  const int64_t scratch = CountOf({64 * 4, time * std::min<int64_t>(time, 128) + 13 * time * size});
  // A card's: log-sum-exps as cuDNN orders them, and its workspace (256 bytes were the most seen).
  const int64_t of_card = CountOf({4, q[0], time, q[2]}) + (int64_t{1} << 16);
  return {CountOf({products, q[0], q[2], time, time, size}),
          BytesOf(call.inputs) + BytesOf(call.outputs),
          scratch,
          {q[0] * q[2], time, size},
          of_card};
}

Cost CostOfForward(const OpCall& call, int64_t products, bool causal) {
  Cost cost = CostOfProducts(call, products);
  *cost.cuda_scratch += MaskBytes(call) + PaddingBytes(call, causal);
  return cost;
}

// Of a gradient, where a kernel may keep two numbers a row of every head. By cuDNN there are two
// more, and an array like q beside a mask.
Cost CostOfGradient(const OpCall& call, int64_t products, bool causal) {
  constexpr int64_t kRests = int64_t{1} << 16;
  const TensorType& q = call.inputs[0];
  Cost cost = CostOfProducts(call, products);
  const int64_t rows = CountOf({8, q.shape[0], q.shape[1], q.shape[2]});
  cost.scratch += rows;
  cost.cuda_scratch = rows;
  if (q.dtype != DType::kBF16) return cost;
  *cost.cuda_scratch += rows + ScoresAtATime(call) + PaddingBytes(call, causal) + kRests;
  if (HasMask(call)) *cost.cuda_scratch += BytesOf({q}) + MaskBytes(call);
  return cost;
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

// Which rows of the samples of a call there are, and the keys that each of them sees. `lengths`:
// the operand after all that a causal op has; null of a causal op.
struct Seen {
  int64_t time;
  const Array* lengths;
  int64_t Rows(int64_t b) const {
    return lengths ? static_cast<int64_t>(lengths->values[b]) : time;
  }
  int64_t Keys(int64_t b, int64_t t) const { return lengths ? Rows(b) : t + 1; }
};

absl::StatusOr<Seen> SeenIn(const char* op, const ReferenceCall& call, size_t causal_operands) {
  Seen seen = {call.inputs[0].array.shape[1], nullptr};
  if (call.inputs.size() > causal_operands) {
    seen.lengths = &call.inputs[causal_operands].array;
    RETURN_IF_ERROR(CheckInRange(op, "lengths", *seen.lengths, seen.time + 1));
  }
  return seen;
}

// Which weights of a shard's heads are kept, each with what makes up for the others.
class Dropped {
 public:
  static absl::StatusOr<Dropped> In(const char* op, const ReferenceCall& call) {
    const auto& attributes = std::get<AttentionAttributes>(call.attributes);
    if (attributes.rate > 0 && attributes.library_draws) {
      return absl::UnimplementedError(
          absl::StrCat(op, ": which weights a card's library drops is not defined"));
    }
    return Dropped(attributes, call);
  }
  double Of(int64_t b, int64_t h, int64_t query, int64_t key, double weight) const {
    if (attributes_.rate == 0) return weight;
    const ShardArray& q = call_.inputs[0];
    const int64_t time = q.logical.shape[1];
    const int64_t head = (q.box[0].begin + b) * q.logical.shape[2] + q.box[2].begin + h;
    const uint32_t word =
        RandomWord(call_.seed, attributes_.key, call_.step, (head * time + query) * time + key);
    return word >= DropoutThreshold(attributes_.rate) ? weight / (1 - attributes_.rate) : 0;
  }

 private:
  Dropped(const AttentionAttributes& attributes, const ReferenceCall& call)
      : attributes_(attributes), call_(call) {}

  const AttentionAttributes& attributes_;
  const ReferenceCall& call_;
};

double Dot(const Array& a, int64_t at_a, const Array& b, int64_t at_b, int64_t size) {
  double sum = 0;
  for (int64_t d = 0; d < size; ++d) sum += a.values[at_a + d] * b.values[at_b + d];
  return sum;
}

absl::Status ReferenceAttention(const ReferenceCall& call) {
  ASSIGN_OR_RETURN(const Seen seen, SeenIn("attention", call, 3));
  ASSIGN_OR_RETURN(const Dropped dropped, Dropped::In("attention", call));
  const Array &q = call.inputs[0].array, &k = call.inputs[1].array, &v = call.inputs[2].array;
  Array &y = call.outputs[0].array, &logsumexp = call.outputs[1].array;
  const double scale = std::get<AttentionAttributes>(call.attributes).scale;
  const int64_t time = q.shape[1], heads = q.shape[2];
  std::vector<double> weights(time);
  for (int64_t b = 0; b < q.shape[0]; ++b) {
    for (int64_t h = 0; h < heads; ++h) {
      const Rows rows(q.shape, b, h);
      for (int64_t t = 0; t < seen.Rows(b); ++t) {
        const int64_t keys = seen.Keys(b, t);
        double max = IdentityOf(Reduction::kMax), sum = 0;
        for (int64_t s = 0; s < keys; ++s) {
          weights[s] = scale * Dot(q, rows.At(t), k, rows.At(s), rows.size);
          max = Reduce(Reduction::kMax, max, weights[s]);
        }
        for (int64_t s = 0; s < keys; ++s) sum += weights[s] = std::exp(weights[s] - max);
        for (int64_t s = 0; s < keys; ++s) {
          const double weight = dropped.Of(b, h, t, s, weights[s] / sum);
          for (int64_t d = 0; d < rows.size; ++d) {
            y.values[rows.At(t) + d] += weight * v.values[rows.At(s) + d];
          }
        }
        logsumexp.values[(b * time + t) * heads + h] = max + std::log(sum);
      }
    }
  }
  return absl::OkStatus();
}

absl::Status ReferenceAttentionGradient(const ReferenceCall& call) {
  ASSIGN_OR_RETURN(const Seen seen, SeenIn("attention_gradient", call, 6));
  ASSIGN_OR_RETURN(const Dropped dropped, Dropped::In("attention_gradient", call));
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
      for (int64_t t = 0; t < seen.Rows(b); ++t) {
        const int64_t at = rows.At(t), keys = seen.Keys(b, t);
        // Slopes of a row sum to zero. dy times y sees to that but for its rounding, which all keys
        // have in common and which would swamp small slopes: their mean is taken off once more.
        const double partial = Dot(dy, at, y, at, rows.size);
        double sum = 0, mean = 0;
        for (int64_t s = 0; s < keys; ++s) {
          const int64_t from = rows.At(s);
          weights[s] = std::exp(scale * Dot(q, at, k, from, rows.size) -
                                logsumexp.values[(b * time + t) * heads + h]);
          slopes[s] = dropped.Of(b, h, t, s, Dot(dy, at, v, from, rows.size)) - partial;
          sum += weights[s];
          mean += weights[s] * slopes[s];
        }
        mean /= sum;
        for (int64_t s = 0; s < keys; ++s) {
          const int64_t from = rows.At(s);
          const double weight = dropped.Of(b, h, t, s, weights[s]);
          const double slope = scale * weights[s] * (slopes[s] - mean);
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
    Refuse(outputs[0], node.op->name, "no gradient flows through the log-sum-exp");
    return;
  }
  const bool padded = inputs.size() > 3;
  std::vector<Tensor> operands = {inputs[0], inputs[1], inputs[2], outputs[0], outputs[1], dy[0]};
  if (padded) operands.push_back(inputs[3]);
  const std::vector<Tensor> gradients =
      Apply(padded ? PaddedAttentionGradientOp() : AttentionGradientOp(), node.attributes,
            std::move(operands));
  for (int i = 0; i < 3; ++i) (*dx)[i] = Dense(gradients[i]);
}

// Of some shapes weights are dropped.
AttentionAttributes AttributesFor(double scale, const Shape& q) {
  return {scale, q[2] % 2 == 0 ? 0 : 0.1, 77};
}
AttentionAttributes ScaleFor(const Shape& q) {
  return AttributesFor(1 / std::sqrt(static_cast<double>(q[3])), q);
}
// The smallest is about the size of a tile; others have a few, and a rest.
std::vector<Shape> LargeHeads() {
  return {{2, 64, 2, 32}, {1, 128, 3, 64}, {2, 77, 1, 24},
          {1, 33, 2, 40}, {3, 1, 2, 16},   {1, 150, 1, 80}};
}

double ScaleOf(Tensor q) {
  const int rank = q.shape().rank();
  return 1 / std::sqrt(rank > 0 ? static_cast<double>(q.shape()[rank - 1]) : 1);
}

TensorType LengthsType(const TensorType& q) { return I32({q.shape[0]}); }

absl::StatusOr<Types> InferForward(absl::string_view op, const OpCall& call, bool padded) {
  RETURN_IF_ERROR(CheckCount(op, call, padded ? 4 : 3));
  RETURN_IF_ERROR(CheckDropout(op, call, padded));
  RETURN_IF_ERROR(CheckOperands(op, call, {1, 2}));
  const TensorType& q = call.inputs[0];
  if (padded) RETURN_IF_ERROR(CheckType(op, "lengths", LengthsType(q), call.inputs[3]));
  return Types{q, LogSumExpType(q)};
}

absl::StatusOr<Types> InferGradient(absl::string_view op, const OpCall& call, bool padded) {
  RETURN_IF_ERROR(CheckCount(op, call, padded ? 7 : 6));
  RETURN_IF_ERROR(CheckDropout(op, call, padded));
  RETURN_IF_ERROR(CheckOperands(op, call, {1, 2, 3, 5}));
  const TensorType& q = call.inputs[0];
  RETURN_IF_ERROR(CheckType(op, "logsumexp", LogSumExpType(q), call.inputs[4]));
  if (padded) RETURN_IF_ERROR(CheckType(op, "lengths", LengthsType(q), call.inputs[6]));
  return Types{q, q, q};
}

// The operands of a call: those of one head, and, padded, lengths behind them.
std::vector<TensorType> ForwardTypes(const TensorType& q, bool padded) {
  std::vector<TensorType> types = Equal(3, q);
  if (padded) types.push_back(LengthsType(q));
  return types;
}

std::vector<TensorType> GradientTypes(const TensorType& q, bool padded) {
  const TensorType rows = {DType::kF32, Leading(q.shape, 1)};
  std::vector<TensorType> types = {q, q, q, q, rows, q};
  if (padded) types.push_back(LengthsType(q));
  return types;
}

// For timing: every length is the whole time, and so is every value, which scores are too small to
// tell.
OpCase WithoutPadding(At at, std::vector<TensorType> types) {
  const double time = static_cast<double>(at[1]);
  return {"", AttentionAttributes{1e-9}, std::move(types), time, time};
}

// What the two kinds of attention share.
OpDef MakeForward(absl::string_view name) {
  OpDef op;
  op.name = std::string(name);
  op.inputs = {{"q"}, {"k"}, {"v"}};
  op.computes_in = ComputesIn::kLow;
  op.outputs = {{"y"}, {"logsumexp"}};
  op.attributes = AttentionAttributes();
  op.random = true;
  op.gradient = AttentionGradient;
  op.reference = ReferenceAttention;
  return op;
}

OpDef MakeGradient(absl::string_view name) {
  OpDef op;
  op.name = std::string(name);
  op.inputs = {{"q"}, {"k"}, {"v"}, {"y"}, {.name = "logsumexp", .statistic = true}, {"dy"}};
  op.computes_in = ComputesIn::kLow;
  op.outputs = {{"dq"}, {"dk"}, {"dv"}};
  op.attributes = AttentionAttributes();
  op.random = true;
  op.reference = ReferenceAttentionGradient;
  return op;
}

}  // namespace

const OpDef& AttentionOp() {
  static const OpDef op = [] {
    OpDef op = MakeForward("attention");
    op.infer = [](const OpCall& call) { return InferForward("attention", call, false); };
    op.rule = [](const OpCall&) { return IndexRule::Parse("bThD,bThD,bThD->bThD,bTh"); };
    op.cost = [](const OpCall& call) { return CostOfForward(call, 2, /*causal=*/true); };
    const TensorType even = F32({2, 5, 3, 4}), one = F32({3, 7, 1, 3});
    op.cases = {{"heads", AttentionAttributes{0.5}, ForwardTypes(even, false)},
                {"one_head", AttentionAttributes{0.577}, ForwardTypes(one, false)},
                {"dropped", AttentionAttributes{0.5, 0.3, 77}, ForwardTypes(even, false)}};
    for (const Shape& shape : LargeHeads()) {
      op.large_cases.push_back({"", ScaleFor(shape), ForwardTypes(F32(shape), false), -3, 3});
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
    OpDef op = MakeGradient("attention_gradient");
    op.infer = [](const OpCall& call) { return InferGradient("attention_gradient", call, false); };
    op.rule = [](const OpCall&) {
      return IndexRule::Parse("bThD,bThD,bThD,bThD,bTh,bThD->bThD,bThD,bThD", {{5}});
    };
    op.cost = [](const OpCall& call) { return CostOfGradient(call, 5, /*causal=*/true); };
    op.cases = {{"heads", AttentionAttributes{0.5}, GradientTypes(F32({2, 5, 3, 4}), false), -1, 1},
                {"dropped", AttentionAttributes{0.5, 0.3, 77},
                 GradientTypes(F32({2, 5, 3, 4}), false), -1, 1}};
    for (const Shape& shape : LargeHeads()) {
      op.large_cases.push_back({"", ScaleFor(shape), GradientTypes(F32(shape), false), -1, 1});
    }
    // More heads than elements of one.
    const TensorType many = F32({64, 1, 8, 1});
    op.large_cases.push_back({"", AttentionAttributes{1}, GradientTypes(many, false), -1, 1});
    op.timing = {Heads(), [](At at) {
                   return OpCase{"", AttentionAttributes{0.125},
                                 GradientTypes(F32({at[0], at[1], 1, at[2]}), false)};
                 }};
    return op;
  }();
  return op;
}

// Twice the products of a causal op, if nothing is padding. Values of a case are those of lengths
// too, so none is negative, and scores get a small scale.
const OpDef& PaddedAttentionOp() {
  static const OpDef op = [] {
    OpDef op = MakeForward("padded_attention");
    op.inputs.push_back({"lengths"});
    op.infer = [](const OpCall& call) { return InferForward("padded_attention", call, true); };
    op.rule = [](const OpCall&) { return IndexRule::Parse("bThD,bThD,bThD,b->bThD,bTh"); };
    op.cost = [](const OpCall& call) { return CostOfForward(call, 4, /*causal=*/false); };
    const TensorType even = F32({2, 5, 3, 4}), one = F32({3, 7, 1, 3});
    op.cases = {{"heads", AttentionAttributes{0.04}, ForwardTypes(even, true), 0, 5},
                {"one_head", AttentionAttributes{0.03}, ForwardTypes(one, true), 0, 7},
                {"dropped", AttentionAttributes{0.04, 0.3, 77}, ForwardTypes(even, true), 0, 5}};
    for (const Shape& shape : LargeHeads()) {
      const double high = static_cast<double>(shape[1]);
      const double scale = 8 / (high * high * static_cast<double>(shape[3]));
      op.large_cases.push_back(
          {"", AttributesFor(scale, shape), ForwardTypes(F32(shape), true), 0, high});
    }
    op.timing = {Heads(), [](At at) {
                   return WithoutPadding(at, ForwardTypes(F32({at[0], at[1], 1, at[2]}), true));
                 }};
    return op;
  }();
  return op;
}

const OpDef& PaddedAttentionGradientOp() {
  static const OpDef op = [] {
    OpDef op = MakeGradient("padded_attention_gradient");
    op.inputs.push_back({"lengths"});
    op.infer = [](const OpCall& call) {
      return InferGradient("padded_attention_gradient", call, true);
    };
    op.rule = [](const OpCall&) {
      return IndexRule::Parse("bThD,bThD,bThD,bThD,bTh,bThD,b->bThD,bThD,bThD", {{5}});
    };
    op.cost = [](const OpCall& call) { return CostOfGradient(call, 10, /*causal=*/false); };
    const std::vector<TensorType> even = GradientTypes(F32({2, 5, 3, 4}), true);
    op.cases = {{"heads", AttentionAttributes{0.04}, even, 0, 5},
                {"dropped", AttentionAttributes{0.04, 0.3, 77}, even, 0, 5}};
    // Drawn as the values are, a log-sum-exp of more would leave a row no weight at all in f32.
    constexpr int64_t kMostDrawn = 72;
    for (const Shape& shape : LargeHeads()) {
      const double high = static_cast<double>(std::min(shape[1], kMostDrawn));
      const double scale = 8 / (high * high * static_cast<double>(shape[3]));
      op.large_cases.push_back(
          {"", AttributesFor(scale, shape), GradientTypes(F32(shape), true), 0, high});
    }
    op.timing = {Heads(), [](At at) {
                   return WithoutPadding(at, GradientTypes(F32({at[0], at[1], 1, at[2]}), true));
                 }};
    return op;
  }();
  return op;
}

// The graph gives a node that drops its key, from its name.
Tensor PaddedAttention(Tensor q, Tensor k, Tensor v, Tensor lengths, double dropout) {
  if (!Present({q, k, v, lengths})) return Tensor();
  return ApplyOne(PaddedAttentionOp(), AttentionAttributes{ScaleOf(q), dropout},
                  {q, k, v, lengths});
}

Tensor CausalAttention(Tensor q, Tensor k, Tensor v, double dropout, bool library_draws) {
  if (!Present({q, k, v})) return Tensor();
  return ApplyOne(AttentionOp(),
                  AttentionAttributes{ScaleOf(q), dropout, 0, library_draws && dropout > 0},
                  {q, k, v});
}

}  // namespace sluice
