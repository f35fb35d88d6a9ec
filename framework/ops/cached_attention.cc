// Attention of new rows of a sequence over keys and values of its earlier rows, which a cache keeps
// from step to step: all of [batch, time, heads, size], where a cache's time is the longest
// sequence, and that of what is new a few rows, one as a rule. Row r of a sample's new ones stands
// at position[b] + r; it sees the cached rows before position[b] and the new ones up to itself.
//
// Two ops, as a variable changes when all that reads it has been computed: attention takes what is
// new beside the cache as it was, and write_rows, of the update phase, leaves the cache as the next
// step wants it. What lies in the cache at and behind the position is not read.
#include <algorithm>
#include <cmath>

#include "framework/ops/cases.h"
#include "framework/ops/inference.h"
#include "framework/ops/op_defs.h"
#include "framework/ops/ops.h"
#include "framework/ops/reference.h"

namespace sluice {
namespace {

TensorType PositionType(const TensorType& rows) { return I32({rows.shape[0]}); }

// As `rows`, but of another time, which is at least theirs.
absl::Status CheckCache(absl::string_view op, absl::string_view port, const TensorType& cache,
                        const TensorType& rows) {
  if (rows.shape.rank() != 4) {
    return Mismatch(op, "expected rows of [batch,time,heads,size], got ", TypeText(rows));
  }
  TensorType expected = rows;
  if (cache.shape.rank() == 4) expected.shape[1] = std::max(cache.shape[1], rows.shape[1]);
  return CheckType(op, port, expected, cache);
}

absl::StatusOr<Types> InferAttention(const OpCall& call) {
  constexpr char kOp[] = "cached_attention";
  RETURN_IF_ERROR(CheckCount(kOp, call, 6));
  if (std::get<AttentionAttributes>(call.attributes).rate != 0) {
    return Mismatch(kOp, "expected no dropout, got a rate of ",
                    std::get<AttentionAttributes>(call.attributes).rate);
  }
  const TensorType& q = call.inputs[0];
  RETURN_IF_ERROR(CheckFloat(kOp, "q", q));
  RETURN_IF_ERROR(CheckType(kOp, "k", q, call.inputs[1]));
  RETURN_IF_ERROR(CheckType(kOp, "v", q, call.inputs[2]));
  RETURN_IF_ERROR(CheckCache(kOp, "keys", call.inputs[3], q));
  RETURN_IF_ERROR(CheckType(kOp, "values", call.inputs[3], call.inputs[4]));
  RETURN_IF_ERROR(CheckType(kOp, "position", PositionType(q), call.inputs[5]));
  return Types{q};
}

absl::StatusOr<Types> InferWrite(const OpCall& call) {
  constexpr char kOp[] = "write_rows";
  RETURN_IF_ERROR(CheckCount(kOp, call, 3));
  const TensorType& rows = call.inputs[1];
  RETURN_IF_ERROR(CheckFloat(kOp, "cache", call.inputs[0]));
  RETURN_IF_ERROR(CheckCache(kOp, "cache", call.inputs[0], rows));
  RETURN_IF_ERROR(CheckType(kOp, "position", PositionType(rows), call.inputs[2]));
  return Types();
}

absl::Status CheckPositions(const char* op, const Array& position, const Shape& cache,
                            const Shape& rows) {
  return CheckInRange(op, "position", position, cache[1] - rows[1] + 1);
}

// Where a (sample, row, head) of an array [b, t, h, d] begins.
int64_t PlaceOf(const Shape& shape, int64_t b, int64_t t, int64_t h) {
  return ((b * shape[1] + t) * shape[2] + h) * shape[3];
}

// Keys and values that the rows of one head of a sample see: cached ones, then new ones.
class SeenRows {
 public:
  SeenRows(const ReferenceCall& call, int64_t b, int64_t h)
      : call_(call), b_(b), h_(h), cached_(static_cast<int64_t>(call.inputs[5].array.values[b])) {}
  int64_t cached() const { return cached_; }
  // The s-th row; `which`: 0 of keys, 1 of values.
  const double* At(int which, int64_t s) const {
    const bool is_new = s >= cached_;
    const Array& from = call_.inputs[(is_new ? 1 : 3) + which].array;
    return from.values.data() + PlaceOf(from.shape, b_, is_new ? s - cached_ : s, h_);
  }

 private:
  const ReferenceCall& call_;
  const int64_t b_, h_, cached_;
};

void AttendRow(const SeenRows& seen, int64_t keys, double scale, const double* q, int64_t size,
               double* y) {
  std::vector<double> weights(keys);
  double max = IdentityOf(Reduction::kMax), sum = 0;
  for (int64_t s = 0; s < keys; ++s) {
    const double* const k = seen.At(0, s);
    for (int64_t d = 0; d < size; ++d) weights[s] += scale * q[d] * k[d];
    max = Reduce(Reduction::kMax, max, weights[s]);
  }
  for (double& weight : weights) sum += weight = std::exp(weight - max);
  for (int64_t s = 0; s < keys; ++s) {
    const double* const v = seen.At(1, s);
    for (int64_t d = 0; d < size; ++d) y[d] += weights[s] / sum * v[d];
  }
}

absl::Status ReferenceCachedAttention(const ReferenceCall& call) {
  const Array& q = call.inputs[0].array;
  RETURN_IF_ERROR(CheckPositions("cached_attention", call.inputs[5].array,
                                 call.inputs[3].array.shape, q.shape));
  const double scale = std::get<AttentionAttributes>(call.attributes).scale;
  for (int64_t b = 0; b < q.shape[0]; ++b) {
    for (int64_t h = 0; h < q.shape[2]; ++h) {
      const SeenRows seen(call, b, h);
      for (int64_t t = 0; t < q.shape[1]; ++t) {
        const int64_t at = PlaceOf(q.shape, b, t, h);
        AttendRow(seen, seen.cached() + t + 1, scale, &q.values[at], q.shape[3],
                  &call.outputs[0].array.values[at]);
      }
    }
  }
  return absl::OkStatus();
}

absl::Status ReferenceWriteRows(const ReferenceCall& call) {
  Array& cache = call.inputs[0].array;
  const Array &rows = call.inputs[1].array, &position = call.inputs[2].array;
  RETURN_IF_ERROR(CheckPositions("write_rows", position, cache.shape, rows.shape));
  const int64_t row = rows.shape[2] * rows.shape[3];
  for (int64_t b = 0; b < rows.shape[0]; ++b) {
    const auto first = static_cast<int64_t>(position.values[b]);
    const double* const from = rows.values.data() + PlaceOf(rows.shape, b, 0, 0);
    std::copy(from, from + rows.shape[1] * row,
              cache.values.data() + PlaceOf(cache.shape, b, first, 0));
  }
  return absl::OkStatus();
}

std::vector<TensorType> AttentionTypes(const Shape& rows, int64_t time) {
  Shape cache = rows;
  cache[1] = time;
  return {F32(rows), F32(rows), F32(rows), F32(cache), F32(cache), I32({rows[0]})};
}

std::vector<TensorType> WriteTypes(const Shape& rows, int64_t time) {
  Shape cache = rows;
  cache[1] = time;
  return {F32(cache), F32(rows), I32({rows[0]})};
}

}  // namespace

// Values of a case are those of positions too, so none is negative, and scores get a small scale.
const OpDef& CachedAttentionOp() {
  static const OpDef op = [] {
    OpDef op;
    op.name = "cached_attention";
    op.inputs = {{"q"}, {"k"}, {"v"}, {"keys"}, {"values"}, {"position"}};
    op.outputs = {{"y"}};
    op.attributes = AttentionAttributes();
    op.infer = InferAttention;
    op.rule = [](const OpCall&) {
      return IndexRule::Parse("bRhD,bRhD,bRhD,bThD,bThD,b->bRhD", {{2, 4}});
    };
    op.cost = [](const OpCall& call) {
      const Shape &q = call.inputs[0].shape, &keys = call.inputs[3].shape;
      // A row of weights for each of many threads.
      const int64_t scratch = CountOf({64 * 4, keys[1] + q[1] + 16});
      return Cost{CountOf({4, q[0], q[1], q[2], keys[1], q[3]}),
                  BytesOf(call.inputs) + BytesOf(call.outputs),
                  scratch,
                  {},
                  /*cuda_scratch=*/0};
    };
    op.reference = ReferenceCachedAttention;
    op.cases = {{"one_row", AttentionAttributes{0.04}, AttentionTypes({2, 1, 3, 4}, 5), 0, 4},
                {"rows", AttentionAttributes{0.04}, AttentionTypes({3, 2, 2, 3}, 6), 0, 4}};
    op.large_cases = {{"", AttentionAttributes{1e-5}, AttentionTypes({3, 1, 5, 64}, 301), 0, 300},
                      {"", AttentionAttributes{1e-4}, AttentionTypes({1, 1, 3, 40}, 77), 0, 76},
                      {"", AttentionAttributes{1e-4}, AttentionTypes({2, 5, 2, 24}, 90), 0, 85}};
    op.timing = NotTimed(kMovesBytes);
    return op;
  }();
  return op;
}

const OpDef& WriteRowsOp() {
  static const OpDef op = [] {
    OpDef op;
    op.name = "write_rows";
    op.inputs = {{.name = "cache", .updates = true}, {"rows"}, {"position"}};
    op.infer = InferWrite;
    op.rule = [](const OpCall&) { return IndexRule::Parse("bThd,bRhd,b->"); };
    op.cost = [](const OpCall& call) { return Cost{0, 2 * BytesOf(call.inputs.subspan(1, 1)), 0}; };
    op.reference = ReferenceWriteRows;
    op.cases = {{"one_row", NoAttributes(), WriteTypes({2, 1, 3, 4}, 5), 0, 4},
                {"rows", NoAttributes(), WriteTypes({3, 2, 2, 3}, 6), 0, 4}};
    op.large_cases = {{"", NoAttributes(), WriteTypes({3, 1, 5, 64}, 301), 0, 300},
                      {"", NoAttributes(), WriteTypes({2, 50, 3, 33}, 90), 0, 40}};
    op.timing = NotTimed(kMovesBytes);
    return op;
  }();
  return op;
}

Tensor CachedAttention(Tensor q, Tensor k, Tensor v, Tensor keys, Tensor values, Tensor position) {
  if (!Present({q, k, v, keys, values, position})) return Tensor();
  const int rank = q.shape().rank();
  const double size = rank > 0 ? static_cast<double>(q.shape()[rank - 1]) : 1;
  return ApplyOne(CachedAttentionOp(), AttentionAttributes{1 / std::sqrt(size)},
                  {q, k, v, keys, values, position});
}

void WriteRows(Tensor cache, Tensor rows, Tensor position) {
  if (!Present({cache, rows, position})) return;
  Graph* const graph = cache.graph();
  const Graph::Context outer = graph->context();
  Graph::Context update;
  update.phase = Phase::kUpdate;
  update.scope = graph->node(graph->tensor(cache.id()).producer).name;
  graph->set_context(update);
  Apply(WriteRowsOp(), NoAttributes(), {cache, rows, position});
  graph->set_context(outer);
}

}  // namespace sluice
