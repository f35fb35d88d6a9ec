#include "framework/ops/card_op.h"

#include <utility>

#include "framework/ops/card_ops.h"
#include "framework/ops/op_defs.h"

namespace sluice {
namespace {

// An addition would take other operands, too, and make more of them.
bool AddsAsDefined(const Types& inputs) {
  const Shape& to = inputs[0].shape;
  const Shape& added = inputs[1].shape;
  return added == to || (added.rank() == 1 && to.rank() > 1 && added[0] == to[to.rank() - 1]);
}

TensorType CastOf(const Attributes& attributes, const TensorType& x) {
  return {std::get<CastAttributes>(attributes).dtype, x.shape};
}

// Of all values.
absl::StatusOr<Types> TypesOf(absl::string_view name, const CardDefinition& of,
                              const OpCall& call) {
  RETURN_IF_ERROR(CheckCount(name, call, of.inputs.size()));
  Types types(call.inputs.begin(), call.inputs.end());
  for (size_t s = 0; s < of.steps.size(); ++s) {
    const OpDef& op = of.steps[s].op();
    const Attributes attributes = of.AttributesOf(s, call.attributes);
    Types inputs;
    for (const size_t read : of.steps[s].reads) inputs.push_back(types[read]);
    if (&op == &AddOp() && !AddsAsDefined(inputs)) {
      return Mismatch(name, "expected equal shapes, or a bias for each row of ",
                      TypeText(inputs[0]), ", got ", TypeText(inputs[1]));
    }
    if (&op == &ReduceOp() &&
        !SumsAllButTheLast(std::get<ReduceAttributes>(attributes), inputs[0].shape)) {
      return Mismatch(name, "expected a sum over all dimensions of ", TypeText(inputs[0]),
                      " but the last, got another reduction");
    }
    ASSIGN_OR_RETURN(const Types made, op.infer({attributes, inputs, {}}));
    types.insert(types.end(), made.begin(), made.end());
  }
  return types;
}

}  // namespace

absl::StatusOr<Types> InferCardOp(absl::string_view name, const CardDefinition& of,
                                  const OpCall& call) {
  ASSIGN_OR_RETURN(const Types types, TypesOf(name, of, call));
  Types made;
  for (const size_t value : of.results) made.push_back(types[value]);
  return made;
}

Cost CostOfCardOp(const CardDefinition& of, const OpCall& call) {
  Types types(call.inputs.begin(), call.inputs.end());
  Cost total;
  for (size_t s = 0; s < of.steps.size(); ++s) {
    const OpDef& op = of.steps[s].op();
    const Attributes attributes = of.AttributesOf(s, call.attributes);
    Types inputs, made;
    for (const size_t read : of.steps[s].reads) inputs.push_back(types[read]);
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      const size_t output = of.OutputOf(types.size() + i);
      made.push_back(output < call.outputs.size() ? call.outputs[output]
                     : &op == &CastOp()           ? CastOf(attributes, inputs[0])
                                                  : call.outputs[0]);
    }
    const Cost cost = op.cost({attributes, inputs, made});
    total.flops += cost.flops;
    total.scratch = std::max(total.scratch, cost.scratch);
    total.cuda_scratch =
        std::max(total.cuda_scratch.value_or(0), cost.ScratchOn(DeviceKind::kCuda));
    types.insert(types.end(), made.begin(), made.end());
  }
  // What stands between the steps is not written.
  total.bytes = BytesOf(call.inputs) + BytesOf(call.outputs);
  return total;
}

absl::Status ReferenceOfCardOp(const CardDefinition& of, const ReferenceCall& call) {
  std::vector<ShardArray> values(call.inputs.begin(), call.inputs.end());
  for (size_t s = 0; s < of.steps.size(); ++s) {
    const OpDef& op = of.steps[s].op();
    const Attributes attributes = of.AttributesOf(s, call.attributes);
    std::vector<ShardArray> inputs, made;
    for (const size_t read : of.steps[s].reads) inputs.push_back(values[read]);
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      const size_t output = of.OutputOf(values.size() + i);
      ShardArray like = call.outputs[output < call.outputs.size() ? output : 0];
      if (output >= call.outputs.size() && &op == &CastOp()) {
        like.logical = CastOf(attributes, inputs[0].logical), like.box = inputs[0].box;
      }
      made.push_back({like.logical, like.box, Array(ShapeOf(like.box))});
    }
    RETURN_IF_ERROR(op.reference(
        {attributes, absl::MakeSpan(inputs), absl::MakeSpan(made), call.seed, call.step}));
    for (ShardArray& value : made) values.push_back(std::move(value));
  }
  for (size_t i = 0; i < of.results.size(); ++i) {
    call.outputs[i].array = values[of.results[i]].array;
  }
  return absl::OkStatus();
}

}  // namespace sluice
