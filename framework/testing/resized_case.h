// Test cases of an op at other extents than they are written with. Which dimensions of its operands
// go together is what the op's index rule says. For tests; pure, any thread.
#ifndef SLUICE_FRAMEWORK_TESTING_RESIZED_CASE_H_
#define SLUICE_FRAMEWORK_TESTING_RESIZED_CASE_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "framework/graph/op_def.h"

namespace sluice {

// The factors of a case's operands. An error where inference refuses the case, or where the op has
// a function of signatures instead of a rule.
absl::StatusOr<TensorFactors> FactorsOf(const OpDef& op, const OpCase& op_case);

// The case with these extents of factors; others stay. Attributes stay too, so that inference may
// refuse what comes out.
OpCase Resized(const OpCase& op_case, const TensorFactors& factors,
               const std::map<std::string, int64_t>& extents);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TESTING_RESIZED_CASE_H_
