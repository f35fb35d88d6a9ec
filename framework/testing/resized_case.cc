#include "framework/testing/resized_case.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"

namespace sluice {

absl::StatusOr<TensorFactors> FactorsOf(const OpDef& op, const OpCase& op_case) {
  if (op.rule == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(op.name, " has no index rule"));
  }
  ASSIGN_OR_RETURN(const std::vector<TensorType> types,
                   op.infer({op_case.attributes, op_case.inputs, {}}));
  ASSIGN_OR_RETURN(const IndexRule rule, op.rule({op_case.attributes, op_case.inputs, types}));
  std::vector<Shape> inputs, outputs;
  for (const TensorType& type : op_case.inputs) inputs.push_back(type.shape);
  for (const TensorType& type : types) outputs.push_back(type.shape);
  return rule.Factors(inputs, outputs);
}

OpCase Resized(const OpCase& op_case, const TensorFactors& factors,
               const std::map<std::string, int64_t>& extents) {
  OpCase resized = op_case;
  for (size_t i = 0; i < resized.inputs.size(); ++i) {
    Shape& shape = resized.inputs[i].shape;
    for (int d = 0; d < shape.rank(); ++d) {
      const auto extent = extents.find(factors.inputs[i][d]);
      if (extent != extents.end()) shape[d] = extent->second;
    }
  }
  return resized;
}

}  // namespace sluice
