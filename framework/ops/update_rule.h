// The four ops of an update rule that goes element by element and has a fixed number of states: of
// a dense gradient and of rows, in place and "..._value" (update.h). A Rule says the rest:
//
//   struct Rule {
//     using Attributes = AdamWAttributes;
//     static constexpr char kName[] = "adamw";
//     static constexpr const char* kStates[] = {"m", "v"};
//     static constexpr bool kReadsStep = true;  // whether the number of the step is an operand
//     static constexpr int64_t kFlops = 15;     // an element
//     static Attributes InCases();              // those of the test cases
//     struct Step {                             // the update of one element
//       Step(const Attributes&, double factor, double learning_rate, double step);
//       void operator()(double gradient, double* variable, double* const* states) const;
//     };
//   };
//
// Inputs: variable, states.., gradient or sorted ids and values, factor, learning_rate, [step]. For
// the files of this package only.
#ifndef SLUICE_FRAMEWORK_OPS_UPDATE_RULE_H_
#define SLUICE_FRAMEWORK_OPS_UPDATE_RULE_H_

#include <iterator>
#include <string>
#include <vector>

#include "framework/ops/cases.h"
#include "framework/ops/update.h"

namespace sluice {

template <typename Rule>
constexpr size_t StatesOf() {
  return std::size(Rule::kStates);
}

// Of the form of a rule, and what operands it has.
template <typename Rule, bool sparse, bool in_place>
struct UpdateForm {
  static constexpr size_t kGradient = 1 + StatesOf<Rule>();
  static constexpr size_t kFactor = kGradient + (sparse ? 2 : 1);
  static constexpr size_t kInputs = kFactor + 2 + (Rule::kReadsStep ? 1 : 0);

  static std::string Name() {
    return absl::StrCat(Rule::kName, sparse ? "_sparse" : "", in_place ? "" : "_value");
  }

  static absl::StatusOr<Types> Infer(const OpCall& call) {
    const std::string op = Name();
    RETURN_IF_ERROR(CheckCount(op, call, kInputs));
    const TensorType& variable = call.inputs[0];
    RETURN_IF_ERROR(CheckFloat(op, "variable", variable));
    for (size_t i = 0; i < StatesOf<Rule>(); ++i) {
      RETURN_IF_ERROR(CheckType(op, Rule::kStates[i], variable, call.inputs[1 + i]));
    }
    RETURN_IF_ERROR(
        CheckGradient(op, variable, call.inputs.subspan(kGradient, kFactor - kGradient)));
    RETURN_IF_ERROR(CheckStatistic(op, "factor", call.inputs[kFactor]));
    RETURN_IF_ERROR(CheckScalar(op, "learning_rate", DType::kF32, call.inputs[kFactor + 1]));
    if constexpr (Rule::kReadsStep) {
      RETURN_IF_ERROR(CheckScalar(op, "step", DType::kI32, call.inputs[kFactor + 2]));
    }
    return in_place ? Types() : Types{call.inputs[kFactor - 1]};
  }

  static absl::StatusOr<IndexRule> Equation(const OpCall&) {
    std::string equation = "...";
    for (size_t i = 1; i <= kGradient; ++i) equation += ",...";
    equation += std::string(kInputs - kFactor, ',') + "->";
    return IndexRule::Parse(in_place ? equation : equation + "...");
  }

  static absl::Status Reference(const ReferenceCall& call) {
    const double step = Rule::kReadsStep ? ScalarOf(call.inputs[kInputs - 1]) : 0;
    const typename Rule::Step update(std::get<typename Rule::Attributes>(call.attributes),
                                     ScalarOf(call.inputs[kFactor]),
                                     ScalarOf(call.inputs[kFactor + 1]), step);
    const auto at = [&](double gradient, size_t place, std::vector<double>* variable) {
      double* states[StatesOf<Rule>()];
      for (size_t s = 0; s < StatesOf<Rule>(); ++s) {
        states[s] = &call.inputs[1 + s].array.values[place];
      }
      update(gradient, &(*variable)[place], states);
    };
    if constexpr (sparse) {
      const std::string op = Name();
      return UpdateRows(op.c_str(), call, kGradient, [&](std::vector<double>* table) {
        return ForEachRowElement(
            op.c_str(), call.inputs[0], call.inputs[kGradient], call.inputs[kGradient + 1],
            [&](double gradient, size_t place) { at(gradient, place, table); });
      });
    }
    std::vector<double>& variable = NewValue(call);
    for (size_t i = 0; i < variable.size(); ++i) {
      at(call.inputs[kGradient].array.values[i], i, &variable);
    }
    return absl::OkStatus();
  }

  static Cost CostOf(const OpCall& call) {
    if constexpr (!sparse) return ElementwiseCost(call, Rule::kFlops);
    // Rows of the variable, of its states and of the gradient are read, all but the last written.
    const int64_t rows = BytesOf(call.inputs.subspan(kGradient, 2));
    return {Rule::kFlops * call.inputs[kFactor - 1].shape.NumElements(),
            static_cast<int64_t>(2 * kGradient + 2) * rows, 3 * rows + 8192};
  }

  // The operands of a case on a variable of this type, whose gradient is dense or such rows.
  static OpCase Case(const std::string& name, const TensorType& variable,
                     const std::vector<TensorType>& gradient) {
    std::vector<TensorType> inputs(kGradient, variable);
    inputs.insert(inputs.end(), gradient.begin(), gradient.end());
    inputs.insert(inputs.end(), 2, F32({}));
    if (Rule::kReadsStep) inputs.push_back(I32({}));
    return {name, Rule::InCases(), inputs, 1, 3};
  }
  static void AddCases(OpDef* op) {
    if constexpr (sparse) {
      op->cases = {Case("table", F32({7, 3}), {I32({6, 2}), F32({2, 3, 3})}),
                   Case("groups", F32({3, 5, 2}), {I32({3, 4, 2}), F32({3, 4, 2})})};
      op->large_cases = {Case("", WideTable(), {I32({99, 2}), F32({99, 67})})};
    } else {
      op->cases = {Case("matrix", F32({5, 3}), {F32({5, 3})})};
      op->large_cases = {Case("", Wide(), {Wide()})};
    }
  }
};

template <typename Rule, bool sparse, bool in_place>
OpDef MakeUpdateOp() {
  using Form = UpdateForm<Rule, sparse, in_place>;
  OpDef op;
  op.name = Form::Name();
  op.inputs.push_back({"variable", in_place});
  for (const char* state : Rule::kStates) op.inputs.push_back({state, /*updates=*/true});
  if (sparse) {
    op.inputs.insert(op.inputs.end(), {{"sorted_ids"}, {"values"}});
    op.signatures = [](const OpCall& call, int64_t shards) {
      return RowsSignatures(call, shards, Form::kGradient);
    };
  } else {
    op.inputs.push_back({"gradient"});
    op.rule = Form::Equation;
  }
  op.inputs.insert(op.inputs.end(), {{"factor"}, {"learning_rate"}});
  if (Rule::kReadsStep) op.inputs.push_back({"step"});
  if (!in_place) op.outputs = {{"value"}};
  op.joins = in_place && !sparse;
  op.attributes = typename Rule::Attributes();
  op.infer = Form::Infer;
  op.cost = Form::CostOf;
  op.reference = Form::Reference;
  Form::AddCases(&op);
  op.timing = NotTimed(kMovesBytes);
  return op;
}

// The inputs of any of the four.
inline std::vector<Tensor> UpdateOperands(Tensor variable, const std::vector<Tensor>& states,
                                          const Gradient& gradient,
                                          const std::vector<Tensor>& scalars) {
  std::vector<Tensor> inputs = {variable};
  inputs.insert(inputs.end(), states.begin(), states.end());
  inputs.insert(inputs.end(), gradient.tensors.begin(), gradient.tensors.end());
  inputs.insert(inputs.end(), scalars.begin(), scalars.end());
  return inputs;
}

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_OPS_UPDATE_RULE_H_
