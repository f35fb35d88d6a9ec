// AdaGrad (Duchi et al. 2011), term by term PyTorch's: the decay is part of the gradient, epsilon
// stands outside the root, the sum begins with zeros. Without decay, rows without a gradient would
// not move anyway: of rows the rule is exact. With decay it is lazy.
#include <cmath>

#include "framework/ops/op_defs.h"
#include "framework/ops/ops.h"
#include "framework/ops/update_rule.h"

namespace sluice {
namespace {

struct AdagradRule {
  using Attributes = AdagradAttributes;
  static constexpr char kName[] = "adagrad";
  static constexpr const char* kStates[] = {"sum"};
  static constexpr bool kReadsStep = false;
  static constexpr int64_t kFlops = 8;
  static Attributes InCases() { return {1e-8, 0.1}; }

  struct Step {
    Step(const AdagradAttributes& a, double factor, double learning_rate, double)
        : a(a), factor(factor), learning_rate(learning_rate) {}
    void operator()(double gradient, double* variable, double* const* states) const {
      double& sum = *states[0];
      const double g = factor * gradient + a.weight_decay * *variable;
      sum += g * g;
      *variable -= learning_rate * g / (std::sqrt(sum) + a.epsilon);
    }
    AdagradAttributes a;
    double factor, learning_rate;
  };
};

}  // namespace

const OpDef& AdagradOp() {
  static const OpDef op = MakeUpdateOp<AdagradRule, false, true>();
  return op;
}

const OpDef& AdagradSparseOp() {
  static const OpDef op = MakeUpdateOp<AdagradRule, true, true>();
  return op;
}

const OpDef& AdagradValueOp() {
  static const OpDef op = MakeUpdateOp<AdagradRule, false, false>();
  return op;
}

const OpDef& AdagradSparseValueOp() {
  static const OpDef op = MakeUpdateOp<AdagradRule, true, false>();
  return op;
}

void AdagradUpdate(Tensor variable, Tensor sum, const Gradient& gradient, Tensor factor,
                   Tensor learning_rate, const AdagradAttributes& attributes) {
  Apply(gradient.kind == Gradient::kSparse ? AdagradSparseOp() : AdagradOp(), attributes,
        UpdateOperands(variable, {sum}, gradient, {FactorOr1(variable, factor), learning_rate}));
}

Tensor AdagradValue(Tensor variable, Tensor sum, const Gradient& gradient, Tensor factor,
                    Tensor learning_rate, const AdagradAttributes& attributes) {
  return ApplyOne(
      gradient.kind == Gradient::kSparse ? AdagradSparseValueOp() : AdagradValueOp(), attributes,
      UpdateOperands(variable, {sum}, gradient, {FactorOr1(variable, factor), learning_rate}));
}

}  // namespace sluice
