// FTRL-Proximal (McMahan et al. 2013, algorithm 1): the variable is a function of its state,
//   n' = n + g^2      z' = z + g - (sqrt(n') - sqrt(n)) / rate variable
//   variable = -(z' - sign(z') l1) / ((beta + sqrt(n')) / rate + l2), or 0 where |z'| <= l1.
// What does not begin as 0 is forgotten with its first gradient, for z begins with zeros. A rate of
// 0 changes nothing. A gradient of zeros leaves z and n alone, and at a constant rate the variable
// too: of rows the rule is exact there; where the rate changes, rows follow it when next touched.
#include <cmath>

#include "framework/ops/op_defs.h"
#include "framework/ops/ops.h"
#include "framework/ops/update_rule.h"

namespace sluice {
namespace {

struct FtrlRule {
  using Attributes = FtrlAttributes;
  static constexpr char kName[] = "ftrl";
  static constexpr const char* kStates[] = {"z", "n"};
  static constexpr bool kReadsStep = false;
  static constexpr int64_t kFlops = 20;
  static Attributes InCases() { return {0.5, 0.1, 1}; }

  struct Step {
    Step(const FtrlAttributes& a, double factor, double learning_rate, double)
        : a(a), factor(factor), learning_rate(learning_rate) {}
    void operator()(double gradient, double* variable, double* const* states) const {
      if (learning_rate == 0) return;
      double &z = *states[0], &n = *states[1];
      const double g = factor * gradient, grown = n + g * g;
      z += g - (std::sqrt(grown) - std::sqrt(n)) / learning_rate * *variable;
      n = grown;
      const double beyond = std::abs(z) - a.l1;
      const double slope = (a.beta + std::sqrt(n)) / learning_rate + a.l2;
      *variable = beyond <= 0 ? 0 : -std::copysign(beyond, z) / slope;
    }
    FtrlAttributes a;
    double factor, learning_rate;
  };
};

}  // namespace

const OpDef& FtrlOp() {
  static const OpDef op = MakeUpdateOp<FtrlRule, false, true>();
  return op;
}

const OpDef& FtrlSparseOp() {
  static const OpDef op = MakeUpdateOp<FtrlRule, true, true>();
  return op;
}

const OpDef& FtrlValueOp() {
  static const OpDef op = MakeUpdateOp<FtrlRule, false, false>();
  return op;
}

const OpDef& FtrlSparseValueOp() {
  static const OpDef op = MakeUpdateOp<FtrlRule, true, false>();
  return op;
}

void FtrlUpdate(Tensor variable, Tensor z, Tensor n, const Gradient& gradient, Tensor factor,
                Tensor learning_rate, const FtrlAttributes& attributes) {
  Apply(gradient.kind == Gradient::kSparse ? FtrlSparseOp() : FtrlOp(), attributes,
        UpdateOperands(variable, {z, n}, gradient, {FactorOr1(variable, factor), learning_rate}));
}

Tensor FtrlValue(Tensor variable, Tensor z, Tensor n, const Gradient& gradient, Tensor factor,
                 Tensor learning_rate, const FtrlAttributes& attributes) {
  return ApplyOne(
      gradient.kind == Gradient::kSparse ? FtrlSparseValueOp() : FtrlValueOp(), attributes,
      UpdateOperands(variable, {z, n}, gradient, {FactorOr1(variable, factor), learning_rate}));
}

}  // namespace sluice
