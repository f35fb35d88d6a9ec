// Top-k hits: how many logits come before the label's, counted where they are. A split
// vocabulary adds up one number a row, and no row is sorted or gathered.
#include <utility>

#include "framework/ops/cases.h"
#include "framework/ops/inference.h"
#include "framework/ops/op_defs.h"
#include "framework/ops/ops.h"
#include "framework/ops/reference.h"

namespace sluice {
namespace {

absl::StatusOr<Types> InferRank(const OpCall& call) {
  RETURN_IF_ERROR(CheckCount("label_rank", call, 3));
  const TensorType& logits = call.inputs[0];
  RETURN_IF_ERROR(CheckFloat("label_rank", "logits", logits));
  if (logits.shape.rank() == 0) {
    return Mismatch("label_rank", "expected logits of [...,v], got ", TypeText(logits));
  }
  const Shape rows = Leading(logits.shape, 1);
  const TensorType row = {StatisticsType(logits.dtype), rows};
  RETURN_IF_ERROR(CheckType("label_rank", "labels", {DType::kI32, rows}, call.inputs[1]));
  RETURN_IF_ERROR(CheckType("label_rank", "the label's logit", row, call.inputs[2]));
  return Types{row};
}

// Of equal logits the earlier comes first. What cannot be compared comes before the label's: a
// logit of NaN is no hit.
absl::Status ReferenceRank(const ReferenceCall& call) {
  const ShardArray& logits = call.inputs[0];
  const Array& labels = call.inputs[1].array;
  RETURN_IF_ERROR(CheckInRange("label_rank", "labels", labels,
                               logits.logical.shape[logits.logical.shape.rank() - 1]));
  const Range held = logits.box.back();
  for (size_t r = 0; r < labels.values.size(); ++r) {
    const double of_label = call.inputs[2].array.values[r];
    const int64_t label = static_cast<int64_t>(labels.values[r]);
    for (int64_t v = held.begin; v < held.end; ++v) {
      const double logit = logits.array.values[r * held.size() + (v - held.begin)];
      const bool behind = logit < of_label || (logit == of_label && v >= label);
      call.outputs[0].array.values[r] += behind ? 0 : 1;
    }
  }
  return absl::OkStatus();
}

}  // namespace

const OpDef& LabelRankOp() {
  static const OpDef op = [] {
    OpDef op;
    op.name = "label_rank";
    op.inputs = {{"logits"}, {"labels"}, {.name = "label_logit", .statistic = true}};
    op.outputs = {{"rank"}};
    op.computes_in = ComputesIn::kEither;
    op.infer = InferRank;
    op.rule = [](const OpCall&) { return IndexRule::Parse("...v,...,...->..."); };
    op.cost = [](const OpCall& call) { return RowsCost(call, call.inputs[0], 2); };
    op.reference = ReferenceRank;
    op.cases = {{"matrix", NoAttributes(), {F32({5, 7}), I32({5}), F32({5})}, 0, 6}};
    op.large_cases = {{"", NoAttributes(), {Wide(), I32({301}), WideColumn()}, 0, 250}};
    op.timing = NotTimed(kMovesBytes);
    return op;
  }();
  return op;
}

Tensor TopKHits(Tensor logits, Tensor labels, int64_t k) {
  if (k < 1) return Refuse(logits, "top_k", absl::StrCat("expected k from 1 on, got ", k));
  const Tensor picked = ApplyOne(CrossEntropyPickOp(), CrossEntropyAttributes(), {logits, labels});
  const Tensor rank = ApplyOne(LabelRankOp(), NoAttributes(), {logits, labels, picked});
  if (!rank) return Tensor();
  // 1 where the rank, a whole number, is below k, and else 0.
  const auto constant = [&](int64_t value) {
    return Fill(rank.graph(), static_cast<double>(value), {}, rank.dtype());
  };
  return Relu(constant(1) - Relu(rank - constant(k - 1)));
}

}  // namespace sluice
