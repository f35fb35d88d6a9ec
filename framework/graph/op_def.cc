#include "framework/graph/op_def.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "framework/base/log.h"
#include "framework/base/status.h"
#include "framework/graph/graph.h"

namespace sluice {
namespace {

// Whole or split along any dimension that has something to split: nothing is computed.
absl::StatusOr<std::vector<Signature>> SourceSignatures(const OpCall& call, int64_t) {
  SLUICE_CHECK_EQ(call.outputs.size(), 1u);
  const Shape& shape = call.outputs[0].shape;
  std::vector<Signature> signatures = {{"", {}, {Sbp::B()}}};
  for (int d = 0; d < shape.rank(); ++d) {
    if (shape[d] > 1) signatures.push_back({absl::StrCat(d), {}, {Sbp::S(d)}});
  }
  return signatures;
}

OpDef Source(const char* name, const Attributes& attributes) {
  OpDef op;
  op.name = name;
  op.outputs = {{"value"}};
  op.attributes = attributes;
  op.signatures = SourceSignatures;
  return op;
}

}  // namespace

const OpDef& InputOp() {
  static const OpDef* const op = new OpDef(Source("input", NoAttributes{}));
  return *op;
}

const OpDef& VariableOp() {
  static const OpDef* const op = new OpDef(Source("variable", VariableAttributes{}));
  return *op;
}

const Port& InputPort(const OpDef& op, size_t input) {
  SLUICE_CHECK(!op.inputs.empty()) << op.name << " has no inputs";
  return op.inputs[std::min(input, op.inputs.size() - 1)];
}

bool IsInPlace(const OpDef& op, size_t input) {
  return op.in_place || (input < op.inputs.size() && op.inputs[input].in_place);
}

std::string ToString(const TensorType& type) {
  return absl::StrCat(DTypeName(type.dtype), type.shape.ToString());
}

absl::StatusOr<std::vector<Signature>> SignaturesOf(const OpDef& op, const OpCall& call,
                                                    int64_t shards) {
  SLUICE_CHECK((op.rule == nullptr) != (op.signatures == nullptr))
      << op.name << " has an index rule or a function, not both";
  if (op.signatures != nullptr) return op.signatures(call, shards);
  ASSIGN_OR_RETURN(const IndexRule rule, op.rule(call));
  std::vector<Shape> inputs, outputs;
  for (const TensorType& type : call.inputs) inputs.push_back(type.shape);
  for (const TensorType& type : call.outputs) outputs.push_back(type.shape);
  absl::StatusOr<std::vector<Signature>> signatures = rule.Signatures(inputs, outputs, shards);
  if (!signatures.ok()) return AddContext(signatures.status(), op.name);
  return signatures;
}

}  // namespace sluice
