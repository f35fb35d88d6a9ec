// Cosines with a margin at the label's class, scaled: what the losses of ArcFace and CosFace put
// before their softmax. Shards of split classes do with the labels of their own range.
//
// The gradient reads the logits, which the loss keeps anyway, and not the cosines: at the label
// theta + angular follows from its logit, theta from that, and
//   d cos(theta + angular) / d cos(theta) = sin(theta + angular) / sin(theta),
// and elsewhere the cosine is not asked for. So the largest tensor of a model of many classes is
// kept once, not twice. Where theta + angular would pass pi the logit lies below all others, for
// there scale (cos(theta) - angular sin(angular) - additive) stands, InsightFace's form: a line of
// the cosine, so that the loss still falls with the angle.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "framework/ops/cases.h"
#include "framework/ops/inference.h"
#include "framework/ops/op_defs.h"
#include "framework/ops/ops.h"
#include "framework/ops/reference.h"

namespace sluice {
namespace {

const MarginAttributes& MarginOf(const Attributes& attributes) {
  return std::get<MarginAttributes>(attributes);
}

absl::Status CheckMargin(absl::string_view op, const MarginAttributes& margin) {
  if (!(margin.scale > 0 && std::isfinite(margin.scale))) {
    return Mismatch(op, "expected a scale above 0, got ", margin.scale);
  }
  if (!(margin.angular >= 0 && margin.angular <= std::numbers::pi / 2)) {
    return Mismatch(op, "expected an angular margin from 0 to pi/2, got ", margin.angular);
  }
  if (!(margin.additive >= 0 && margin.additive <= 2)) {
    return Mismatch(op, "expected an additive margin from 0 to 2, got ", margin.additive);
  }
  return absl::OkStatus();
}

absl::Status CheckLogits(absl::string_view op, const OpCall& call) {
  const TensorType& logits = call.inputs[0];
  RETURN_IF_ERROR(CheckFloat(op, "cosine", logits));
  if (logits.shape.rank() == 0) {
    return Mismatch(op, "expected cosines of [...,v], got ", TypeText(logits));
  }
  RETURN_IF_ERROR(CheckMargin(op, MarginOf(call.attributes)));
  return CheckType(op, "labels", {DType::kI32, Leading(logits.shape, 1)}, call.inputs[1]);
}

// NaN comes out as NaN.
double SineOf(double cosine) {
  const double square = 1 - cosine * cosine;
  return square < 0 ? 0 : std::sqrt(square);
}

double LabelLogit(const MarginAttributes& margin, double x) {
  x = std::clamp(x, -1.0, 1.0);  // rounding takes cosines out of their range
  const double cosine = std::cos(margin.angular), sine = std::sin(margin.angular);
  const double moved = x >= -cosine ? x * cosine - SineOf(x) * sine : x - margin.angular * sine;
  return margin.scale * (moved - margin.additive);
}

double LabelFactor(const MarginAttributes& margin, double logit) {
  if (margin.angular == 0) return 1;
  const double cosine = std::cos(margin.angular), sine = std::sin(margin.angular);
  const double moved = logit / margin.scale + margin.additive;
  // Between -1, where the cosine ends, and where the line begins.
  const double end = (cosine + margin.angular * sine + 1) / 2;
  if (moved < -end) return 1;
  const double sine_of_moved = SineOf(std::clamp(moved, -1.0, 1.0));
  const double sine_of_angle = sine_of_moved * cosine - moved * sine;
  constexpr double kLeast = MarginAttributes::kLeastSine;
  return sine_of_moved / (sine_of_angle < kLeast ? kLeast : sine_of_angle);
}

// fn(element, whether it is the label's) for all elements of logits.
template <typename Fn>
absl::Status ForEachLogit(const char* op, const ReferenceCall& call, Fn&& fn) {
  const ShardArray& logits = call.inputs[0];
  const Array& labels = call.inputs[1].array;
  const int64_t classes = logits.logical.shape[logits.logical.shape.rank() - 1];
  RETURN_IF_ERROR(CheckInRange(op, "labels", labels, classes));
  const Range held = logits.box.back();
  for (size_t r = 0; r < labels.values.size(); ++r) {
    for (int64_t v = held.begin; v < held.end; ++v) {
      fn(static_cast<int64_t>(r) * held.size() + (v - held.begin),
         static_cast<int64_t>(labels.values[r]) == v);
    }
  }
  return absl::OkStatus();
}

absl::Status ReferenceLogits(const ReferenceCall& call) {
  const MarginAttributes& margin = MarginOf(call.attributes);
  return ForEachLogit("margin_logits", call, [&](int64_t i, bool hit) {
    const double cosine = call.inputs[0].array.values[i];
    call.outputs[0].array.values[i] = hit ? LabelLogit(margin, cosine) : margin.scale * cosine;
  });
}

absl::Status ReferenceGradient(const ReferenceCall& call) {
  const MarginAttributes& margin = MarginOf(call.attributes);
  return ForEachLogit("margin_logits_gradient", call, [&](int64_t i, bool hit) {
    const double factor = hit ? LabelFactor(margin, call.inputs[0].array.values[i]) : 1;
    call.outputs[0].array.values[i] = margin.scale * factor * call.inputs[2].array.values[i];
  });
}

// Scales of the cases are small, as finite differences and random graphs want values.
const MarginAttributes kArc = {2, 0.5, 0}, kCos = {2, 0, 0.375}, kBoth = {1, 0.25, 0.125};
// Ids lie in the range of the values, so cosines of the cases are of two classes, and positive;
// kernels/cpu/margin_test.cc has the others.
constexpr double kLow = 0.1, kHigh = 0.9;

OpCase CaseOf(const char* name, const MarginAttributes& margin, const Shape& shape) {
  return {name, margin, {F32(shape), I32(Leading(shape, 1))}, kLow, kHigh};
}
OpCase GradientCaseOf(const char* name, const MarginAttributes& margin, const Shape& shape) {
  return {name, margin, {F32(shape), I32(Leading(shape, 1)), F32(shape)}, kLow, kHigh};
}

OpDef MakeOp(const char* name, std::vector<Port> inputs, const char* output) {
  OpDef op;
  op.name = name;
  op.attributes = MarginAttributes();
  op.inputs = std::move(inputs);
  op.computes_in = ComputesIn::kEither;
  op.outputs = {{output}};
  return op;
}

}  // namespace

const OpDef& MarginLogitsOp() {
  static const OpDef op = [] {
    OpDef op = MakeOp("margin_logits", {{"cosine"}, {"labels"}}, "logits");
    op.infer = [](const OpCall& call) -> absl::StatusOr<Types> {
      RETURN_IF_ERROR(CheckCount("margin_logits", call, 2));
      RETURN_IF_ERROR(CheckLogits("margin_logits", call));
      return Types{call.inputs[0]};
    };
    op.rule = [](const OpCall&) { return IndexRule::Parse("...v,...->...v"); };
    op.gradient = [](const Node& node, absl::Span<const Tensor> inputs,
                     absl::Span<const Tensor> outputs, absl::Span<const Tensor> dy,
                     std::vector<Gradient>* dx) {
      (*dx)[0] = Dense(
          ApplyOne(MarginLogitsGradientOp(), node.attributes, {outputs[0], inputs[1], dy[0]}));
    };
    op.cost = [](const OpCall& call) { return ElementwiseCost(call, 1); };
    op.reference = ReferenceLogits;
    op.cases = {CaseOf("arc", kArc, {5, 7}), CaseOf("cos", kCos, {5, 7}),
                CaseOf("cube", kBoth, {2, 3, 5})};
    op.large_cases = {CaseOf("", MarginAttributes{64, 0.5, 0}, {301, 251}),
                      CaseOf("", MarginAttributes{30, 0, 0.35}, {301, 251})};
    op.timing = NotTimed(kMovesBytes);
    return op;
  }();
  return op;
}

const OpDef& MarginLogitsGradientOp() {
  static const OpDef op = [] {
    OpDef op = MakeOp("margin_logits_gradient", {{"logits"}, {"labels"}, {"dlogits"}}, "dcosine");
    op.infer = [](const OpCall& call) -> absl::StatusOr<Types> {
      RETURN_IF_ERROR(CheckCount("margin_logits_gradient", call, 3));
      RETURN_IF_ERROR(CheckLogits("margin_logits_gradient", call));
      RETURN_IF_ERROR(
          CheckType("margin_logits_gradient", "dlogits", call.inputs[0], call.inputs[2]));
      return Types{call.inputs[0]};
    };
    op.rule = [](const OpCall&) { return IndexRule::Parse("...v,...,...v->...v", {{2}}); };
    // Of the logits it reads one a row.
    op.cost = [](const OpCall& call) {
      const int64_t bytes = BytesOf(call.inputs.subspan(1)) + BytesOf(call.outputs);
      return Cost{call.outputs[0].shape.NumElements(), bytes, 0};
    };
    op.reference = ReferenceGradient;
    op.cases = {GradientCaseOf("arc", kArc, {5, 7}), GradientCaseOf("cos", kCos, {5, 7}),
                GradientCaseOf("cube", kBoth, {2, 3, 5})};
    op.large_cases = {GradientCaseOf("", kArc, {301, 251}),
                      GradientCaseOf("", MarginAttributes{30, 0, 0.35}, {301, 251})};
    op.timing = NotTimed(kMovesBytes);
    return op;
  }();
  return op;
}

Tensor MarginLogits(Tensor cosine, Tensor labels, const MarginAttributes& attributes) {
  return ApplyOne(MarginLogitsOp(), attributes, {cosine, labels});
}

}  // namespace sluice
