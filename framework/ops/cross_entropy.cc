// Softmax cross entropy as four ops, so that a split vocabulary needs three reductions of one
// number a position (max, sum, picked) and none in the backward pass:
//   max = max_v logit      sum = sum_v exp(logit - max)      picked = logit[label]
//   loss = log(sum) + max - picked
// The gradient of the whole chain, dloss (softmax - onehot), is taken at pick: there the factor v
// is known and labels are at hand. Sum and max pass none on; what would flow through max is zero.
// A smoothed target is (1 - smoothing) of the label and smoothing / v of every class, so that
// picked is their weighted sum, still one number a position: PyTorch's formula, as log(sum) + max
// is the same for all classes.
#include <algorithm>
#include <cmath>
#include <utility>

#include "framework/ops/cases.h"
#include "framework/ops/inference.h"
#include "framework/ops/op_defs.h"
#include "framework/ops/ops.h"
#include "framework/ops/reference.h"

namespace sluice {
namespace {

absl::Status CheckLogits(absl::string_view op, const TensorType& logits) {
  RETURN_IF_ERROR(CheckFloat(op, "logits", logits));
  if (logits.shape.rank() > 0) return absl::OkStatus();
  return Mismatch(op, "expected logits of [...,v], got ", TypeText(logits));
}

TensorType PerPosition(const TensorType& logits) {
  return {StatisticsType(logits.dtype), Leading(logits.shape, 1)};
}

absl::Status CheckLabels(absl::string_view op, const TensorType& logits, const TensorType& labels) {
  return CheckType(op, "labels", {DType::kI32, Leading(logits.shape, 1)}, labels);
}

Port Statistic(const char* name) { return {.name = name, .statistic = true}; }

OpDef MakeOp(const char* name, std::vector<Port> inputs, const char* output) {
  OpDef op;
  op.name = name;
  op.inputs = std::move(inputs);
  op.computes_in = ComputesIn::kEither;
  op.outputs = {{output}};
  return op;
}

absl::Status ReferenceMax(const ReferenceCall& call) {
  const Array& logits = call.inputs[0].array;
  Array& max = call.outputs[0].array;
  const int64_t length = RowLength(logits);
  for (size_t r = 0; r < max.values.size(); ++r) {
    max.values[r] = IdentityOf(Reduction::kMax);  // of a shard without vocabulary, too
    for (int64_t v = 0; v < length; ++v) {
      max.values[r] = Reduce(Reduction::kMax, max.values[r], logits.values[r * length + v]);
    }
  }
  return absl::OkStatus();
}

absl::Status ReferenceSumExp(const ReferenceCall& call) {
  const Array& logits = call.inputs[0].array;
  const Array& max = call.inputs[1].array;
  Array& sum = call.outputs[0].array;
  const int64_t length = RowLength(logits);
  for (size_t r = 0; r < sum.values.size(); ++r) {
    for (int64_t v = 0; v < length; ++v) {
      sum.values[r] += std::exp(logits.values[r * length + v] - max.values[r]);
    }
  }
  return absl::OkStatus();
}

// The vocabulary that a shard of logits holds, and how many there are in all.
Range Vocabulary(const ShardArray& logits) { return logits.box.back(); }
int64_t VocabularySize(const ShardArray& logits) {
  return logits.logical.shape[logits.logical.shape.rank() - 1];
}

// What each class has of a smoothed target.
double ShareOf(const ReferenceCall& call) {
  return std::get<CrossEntropyAttributes>(call.attributes).smoothing /
         static_cast<double>(VocabularySize(call.inputs[0]));
}
double SmoothingOf(const Attributes& attributes) {
  return std::get<CrossEntropyAttributes>(attributes).smoothing;
}

absl::Status ReferencePick(const ReferenceCall& call) {
  const ShardArray& logits = call.inputs[0];
  const Array& labels = call.inputs[1].array;
  RETURN_IF_ERROR(CheckInRange("ce_pick", "labels", labels, VocabularySize(logits)));
  const Range held = Vocabulary(logits);
  const double smoothing = SmoothingOf(call.attributes), share = ShareOf(call);
  for (size_t r = 0; r < labels.values.size(); ++r) {
    const double* const row = logits.array.values.data() + r * held.size();
    double& picked = call.outputs[0].array.values[r];
    for (int64_t v = 0; smoothing != 0 && v < held.size(); ++v) picked += share * row[v];
    const int64_t label = static_cast<int64_t>(labels.values[r]);
    if (label < held.begin || label >= held.end) continue;  // another shard's logit
    picked += (1 - smoothing) * row[label - held.begin];
  }
  return absl::OkStatus();
}

absl::Status ReferenceGradient(const ReferenceCall& call) {
  const ShardArray& logits = call.inputs[0];
  const std::vector<double>& max = call.inputs[1].array.values;
  const std::vector<double>& sum = call.inputs[2].array.values;
  const Array& labels = call.inputs[3].array;
  const std::vector<double>& dpicked = call.inputs[4].array.values;
  RETURN_IF_ERROR(CheckInRange("ce_gradient", "labels", labels, VocabularySize(logits)));
  const Range held = Vocabulary(logits);
  for (size_t r = 0; r < labels.values.size(); ++r) {
    for (int64_t v = held.begin; v < held.end; ++v) {
      const int64_t at = static_cast<int64_t>(r) * held.size() + (v - held.begin);
      const double probability = std::exp(logits.array.values[at] - max[r]) / sum[r];
      const bool hit = static_cast<int64_t>(labels.values[r]) == v;
      const double target = (hit ? 1 - SmoothingOf(call.attributes) : 0) + ShareOf(call);
      call.outputs[0].array.values[at] = dpicked[r] * (target - probability);
    }
  }
  return absl::OkStatus();
}

// Pick is followed by combine, which has max and sum: SoftmaxCrossEntropy alone makes either.
void PickGradient(const Node& pick, absl::Span<const Tensor> inputs,
                  absl::Span<const Tensor> outputs, absl::Span<const Tensor> dy,
                  std::vector<Gradient>* dx) {
  Graph* graph = outputs[0].graph();
  const TensorId picked = outputs[0].id();
  for (const Node& node : graph->nodes()) {
    if (node.op != &CrossEntropyCombineOp() || node.inputs[2] != picked) continue;
    const Tensor max(graph, node.inputs[0]), sum(graph, node.inputs[1]);
    (*dx)[0] = Dense(ApplyOne(CrossEntropyGradientOp(), pick.attributes,
                              {inputs[0], max, sum, inputs[1], dy[0]}));
    return;
  }
  Refuse(outputs[0], "ce_pick", "has a gradient only as a part of a cross entropy");
}

void CombineGradient(const Node&, absl::Span<const Tensor>, absl::Span<const Tensor>,
                     absl::Span<const Tensor> dy, std::vector<Gradient>* dx) {
  (*dx)[2] = Dense(Scale(dy[0], -1));
}

const CrossEntropyAttributes kPlain = {}, kSmooth = {0.125};

std::vector<OpCase> WithoutGradientCheck(std::vector<OpCase> cases) {
  for (OpCase& c : cases) c.check_gradient = false;
  return cases;
}

}  // namespace

const OpDef& CrossEntropyMaxOp() {
  static const OpDef op = [] {
    OpDef op = MakeOp("ce_max", {{"logits"}}, "max");
    op.infer = [](const OpCall& call) -> absl::StatusOr<Types> {
      RETURN_IF_ERROR(CheckCount("ce_max", call, 1));
      RETURN_IF_ERROR(CheckLogits("ce_max", call.inputs[0]));
      return Types{PerPosition(call.inputs[0])};
    };
    op.rule = [](const OpCall&) { return IndexRule::Parse("...v->...", {}, Reduction::kMax); };
    op.cost = [](const OpCall& call) { return RowsCost(call, call.inputs[0], 1); };
    op.reference = ReferenceMax;
    op.cases = {{"matrix", NoAttributes(), {F32({5, 7})}},
                {"cube", NoAttributes(), {F32({2, 3, 5})}}};
    op.large_cases = {{"", NoAttributes(), Equal(1, Wide())}};
    op.timing = {RowsByLength(), [](At at) {
                   return OpCase{"", NoAttributes(), {F32({at[0], at[1]})}};
                 }};
    return op;
  }();
  return op;
}

const OpDef& CrossEntropySumExpOp() {
  static const OpDef op = [] {
    OpDef op = MakeOp("ce_sum_exp", {{"logits"}, Statistic("max")}, "sum");
    op.infer = [](const OpCall& call) -> absl::StatusOr<Types> {
      RETURN_IF_ERROR(CheckCount("ce_sum_exp", call, 2));
      RETURN_IF_ERROR(CheckLogits("ce_sum_exp", call.inputs[0]));
      const TensorType row = PerPosition(call.inputs[0]);
      RETURN_IF_ERROR(CheckType("ce_sum_exp", "max", row, call.inputs[1]));
      return Types{row};
    };
    op.rule = [](const OpCall&) { return IndexRule::Parse("...v,...->..."); };
    op.cost = [](const OpCall& call) { return RowsCost(call, call.inputs[0], 15); };
    op.reference = ReferenceSumExp;
    op.cases = {{"matrix", NoAttributes(), {F32({5, 7}), F32({5})}},
                {"cube", NoAttributes(), {F32({2, 3, 5}), F32({2, 3})}}};
    op.large_cases = {{"", NoAttributes(), {Wide(), WideColumn()}, -3, 3}};
    op.timing = {RowsByLength(), [](At at) {
                   return OpCase{"", NoAttributes(), {F32({at[0], at[1]}), F32({at[0]})}};
                 }};
    return op;
  }();
  return op;
}

const OpDef& CrossEntropyPickOp() {
  static const OpDef op = [] {
    OpDef op = MakeOp("ce_pick", {{"logits"}, {"labels"}}, "picked");
    op.attributes = CrossEntropyAttributes();
    op.infer = [](const OpCall& call) -> absl::StatusOr<Types> {
      RETURN_IF_ERROR(CheckCount("ce_pick", call, 2));
      RETURN_IF_ERROR(CheckLogits("ce_pick", call.inputs[0]));
      RETURN_IF_ERROR(CheckLabels("ce_pick", call.inputs[0], call.inputs[1]));
      return Types{PerPosition(call.inputs[0])};
    };
    op.rule = [](const OpCall&) { return IndexRule::Parse("...v,...->...", {{0}}); };
    op.gradient = PickGradient;
    op.cost = [](const OpCall& call) {
      if (SmoothingOf(call.attributes) != 0) return ElementwiseCost(call, 1);
      return Cost{0, BytesOf(call.inputs.subspan(1)) + 2 * BytesOf(call.outputs), 0};
    };
    op.reference = ReferencePick;
    op.cases = WithoutGradientCheck({{"matrix", kPlain, {F32({5, 7}), I32({5})}, 0, 6},
                                     {"cube", kPlain, {F32({2, 3, 5}), I32({2, 3})}, 0, 4},
                                     {"smooth", kSmooth, {F32({5, 7}), I32({5})}, 0, 6}});
    op.large_cases = {{"", kPlain, {Wide(), I32({301})}, 0, 250},
                      {"", kSmooth, {Wide(), I32({301})}, 0, 250}};
    op.timing = NotTimed(kMovesBytes);
    return op;
  }();
  return op;
}

const OpDef& CrossEntropyCombineOp() {
  static const OpDef op = [] {
    OpDef op =
        MakeOp("ce_combine", {Statistic("max"), Statistic("sum"), Statistic("picked")}, "loss");
    op.infer = [](const OpCall& call) -> absl::StatusOr<Types> {
      RETURN_IF_ERROR(CheckCount("ce_combine", call, 3));
      for (const TensorType& type : call.inputs) {
        RETURN_IF_ERROR(CheckType("ce_combine", "every operand", call.inputs[0], type));
      }
      RETURN_IF_ERROR(CheckFloat("ce_combine", "max", call.inputs[0]));
      return Types{call.inputs[0]};
    };
    op.rule = [](const OpCall&) { return IndexRule::Parse("...,...,...->..."); };
    op.gradient = CombineGradient;
    op.cost = [](const OpCall& call) { return ElementwiseCost(call, 15); };
    op.reference = [](const ReferenceCall& call) {
      const std::vector<double>& max = call.inputs[0].array.values;
      const std::vector<double>& sum = call.inputs[1].array.values;
      const std::vector<double>& picked = call.inputs[2].array.values;
      for (size_t i = 0; i < max.size(); ++i) {
        call.outputs[0].array.values[i] = std::log(sum[i]) + max[i] - picked[i];
      }
      return absl::OkStatus();
    };
    const TensorType row = F32({5, 3});
    op.cases = WithoutGradientCheck({{"rows", NoAttributes(), {row, row, row}, 0.5, 4}});
    op.large_cases = {{"", NoAttributes(), Equal(3, Wide()), 0.5, 90}};
    op.timing = NotTimed(kMovesBytes);
    return op;
  }();
  return op;
}

const OpDef& CrossEntropyGradientOp() {
  static const OpDef op = [] {
    OpDef op =
        MakeOp("ce_gradient",
               {{"logits"}, Statistic("max"), Statistic("sum"), {"labels"}, Statistic("dpicked")},
               "dlogits");
    op.in_place = true;
    op.attributes = CrossEntropyAttributes();
    op.infer = [](const OpCall& call) -> absl::StatusOr<Types> {
      RETURN_IF_ERROR(CheckCount("ce_gradient", call, 5));
      const TensorType& logits = call.inputs[0];
      RETURN_IF_ERROR(CheckLogits("ce_gradient", logits));
      for (int i : {1, 2, 4}) {
        RETURN_IF_ERROR(
            CheckType("ce_gradient", "max, sum and dpicked", PerPosition(logits), call.inputs[i]));
      }
      RETURN_IF_ERROR(CheckLabels("ce_gradient", logits, call.inputs[3]));
      return Types{logits};
    };
    op.rule = [](const OpCall&) { return IndexRule::Parse("...v,...,...,...,...->...v", {{4}}); };
    op.cost = [](const OpCall& call) { return RowsCost(call, call.inputs[0], 18); };
    op.reference = ReferenceGradient;
    op.cases = {{"matrix", kPlain, {F32({5, 7}), F32({5}), F32({5}), I32({5}), F32({5})}, 1, 4},
                {"smooth", kSmooth, {F32({5, 7}), F32({5}), F32({5}), I32({5}), F32({5})}, 1, 4},
                {"cube",
                 kPlain,
                 {F32({2, 3, 5}), F32({2, 3}), F32({2, 3}), I32({2, 3}), F32({2, 3})},
                 1,
                 4}};
    op.large_cases = {
        {"", kPlain, {Wide(), WideColumn(), WideColumn(), I32({301}), WideColumn()}, 1, 4},
        {"", kSmooth, {Wide(), WideColumn(), WideColumn(), I32({301}), WideColumn()}, 1, 4}};
    op.timing = {RowsByLength(), [](At at) {
                   const TensorType column = F32({at[0]});
                   return OpCase{"",
                                 kPlain,
                                 {F32({at[0], at[1]}), column, column, I32({at[0]}), column},
                                 0,
                                 static_cast<double>(at[1] - 1)};
                 }};
    return op;
  }();
  return op;
}

Tensor SoftmaxCrossEntropy(Tensor logits, Tensor labels, double smoothing) {
  if (!(smoothing >= 0 && smoothing <= 1)) {
    return Refuse(logits, "cross_entropy",
                  absl::StrCat("expected 0 <= smoothing <= 1, got ", smoothing));
  }
  const Tensor max = ApplyOne(CrossEntropyMaxOp(), NoAttributes(), {logits});
  const Tensor sum = ApplyOne(CrossEntropySumExpOp(), NoAttributes(), {logits, max});
  const Tensor picked =
      ApplyOne(CrossEntropyPickOp(), CrossEntropyAttributes{smoothing}, {logits, labels});
  return ApplyOne(CrossEntropyCombineOp(), NoAttributes(), {max, sum, picked});
}

}  // namespace sluice
