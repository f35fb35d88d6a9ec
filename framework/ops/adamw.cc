// AdamW: decay first, epsilon outside the root, `step` from 1. Rows without a gradient are left
// alone, their moments too: lazy, as PyTorch's SparseAdam is, and another rule than AdamW on a
// gradient of zeros.
#include <cmath>

#include "framework/ops/op_defs.h"
#include "framework/ops/ops.h"
#include "framework/ops/update_rule.h"

namespace sluice {
namespace {

struct AdamWRule {
  using Attributes = AdamWAttributes;
  static constexpr char kName[] = "adamw";
  static constexpr const char* kStates[] = {"m", "v"};
  static constexpr bool kReadsStep = true;
  static constexpr int64_t kFlops = 15;
  static Attributes InCases() { return {0.9, 0.95, 1e-8, 0.1}; }

  struct Step {
    Step(const AdamWAttributes& a, double factor, double learning_rate, double step)
        : a(a),
          factor(factor),
          learning_rate(learning_rate),
          correction1(a.bias_correction ? 1 - std::pow(a.beta1, step) : 1),
          correction2(a.bias_correction ? std::sqrt(1 - std::pow(a.beta2, step)) : 1) {}
    void operator()(double gradient, double* variable, double* const* states) const {
      double &m = *states[0], &v = *states[1];
      const double g = factor * gradient;
      *variable *= 1 - learning_rate * a.weight_decay;
      m = a.beta1 * m + (1 - a.beta1) * g;
      v = a.beta2 * v + (1 - a.beta2) * g * g;
      *variable -= learning_rate / correction1 * m / (std::sqrt(v) / correction2 + a.epsilon);
    }
    AdamWAttributes a;
    double factor, learning_rate, correction1, correction2;
  };
};

}  // namespace

const OpDef& AdamWOp() {
  static const OpDef op = [] {
    OpDef op = MakeUpdateOp<AdamWRule, false, true>();
    op.timing = {Elements(), [](At at) {
                   OpCase timed =
                       UpdateForm<AdamWRule, false, true>::Case("", F32({at[0]}), {F32({at[0]})});
                   timed.high = 1;
                   return timed;
                 }};
    return op;
  }();
  return op;
}

const OpDef& AdamWSparseOp() {
  static const OpDef op = MakeUpdateOp<AdamWRule, true, true>();
  return op;
}

const OpDef& AdamWValueOp() {
  static const OpDef op = MakeUpdateOp<AdamWRule, false, false>();
  return op;
}

const OpDef& AdamWSparseValueOp() {
  static const OpDef op = MakeUpdateOp<AdamWRule, true, false>();
  return op;
}

void AdamWUpdate(Tensor variable, Tensor m, Tensor v, const Gradient& gradient, Tensor factor,
                 Tensor learning_rate, Tensor step, const AdamWAttributes& attributes) {
  Apply(gradient.kind == Gradient::kSparse ? AdamWSparseOp() : AdamWOp(), attributes,
        UpdateOperands(variable, {m, v}, gradient,
                       {FactorOr1(variable, factor), learning_rate, step}));
}

Tensor AdamWValue(Tensor variable, Tensor m, Tensor v, const Gradient& gradient, Tensor factor,
                  Tensor learning_rate, Tensor step, const AdamWAttributes& attributes) {
  return ApplyOne(gradient.kind == Gradient::kSparse ? AdamWSparseValueOp() : AdamWValueOp(),
                  attributes,
                  UpdateOperands(variable, {m, v}, gradient,
                                 {FactorOr1(variable, factor), learning_rate, step}));
}

}  // namespace sluice
