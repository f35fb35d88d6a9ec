// How an op of a card is defined by the ops that it stands for (card_ops.h): its types, its cost
// and its reference implementation follow from theirs. For the files of this package only.
#ifndef SLUICE_FRAMEWORK_OPS_CARD_OP_H_
#define SLUICE_FRAMEWORK_OPS_CARD_OP_H_

#include <algorithm>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/graph/op_def.h"
#include "framework/ops/cases.h"
#include "framework/ops/inference.h"

namespace sluice {

// The definition is a list of ops. Values are numbered: inputs of the whole, then what each step
// makes. What is no output of the whole lies as its first output does, or, if it is cast, as what
// it is cast of.
struct CardStep {
  const OpDef& (*op)();
  std::vector<size_t> reads;
};
struct CardDefinition {
  std::vector<Port> inputs, outputs;
  std::vector<CardStep> steps;
  size_t attributes;            // the step that they belong to
  std::vector<size_t> results;  // by output: the value that it is
  // Those of a step, where they belong to several.
  Attributes (*of_step)(size_t step, const Attributes& of_all) = nullptr;

  Attributes AttributesOf(size_t step, const Attributes& of_all) const {
    if (of_step != nullptr) return of_step(step, of_all);
    return step == attributes ? of_all : steps[step].op().attributes;
  }
  // Which output a value is; results.size(): none.
  size_t OutputOf(size_t value) const {
    return std::find(results.begin(), results.end(), value) - results.begin();
  }
};

// Of the outputs. Errors name the op.
absl::StatusOr<std::vector<TensorType>> InferCardOp(absl::string_view name,
                                                    const CardDefinition& of, const OpCall& call);
// Of all steps, but for what stands between them, which is not written.
Cost CostOfCardOp(const CardDefinition& of, const OpCall& call);
absl::Status ReferenceOfCardOp(const CardDefinition& of, const ReferenceCall& call);

// An OpDef holds plain functions, so what they are of is an argument of the template.
using CardDefinitionOf = const CardDefinition& (*)();

// Without a rule and cases.
template <CardDefinitionOf kOf, const char* kName>
OpDef MakeCardOp() {
  OpDef op;
  op.name = kName;
  op.inputs = kOf().inputs;
  op.outputs = kOf().outputs;
  op.attributes = kOf().steps[kOf().attributes].op().attributes;
  op.infer = [](const OpCall& call) { return InferCardOp(kName, kOf(), call); };
  op.cost = [](const OpCall& call) { return CostOfCardOp(kOf(), call); };
  op.reference = [](const ReferenceCall& call) { return ReferenceOfCardOp(kOf(), call); };
  op.timing = NotTimed("CPUs, which are what is calibrated, have no kernel of it");
  return op;
}

// The type, in bf16.
inline TensorType Low(const TensorType& x) { return {DType::kBF16, x.shape}; }

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_OPS_CARD_OP_H_
