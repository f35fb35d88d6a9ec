// The values of a test case of an op: inputs drawn from a seed, and what the op's reference
// implementation makes of them on one device. Tests of rules, of kernels and of gradients start
// here.
#ifndef SLUICE_FRAMEWORK_CONFORMANCE_CASE_VALUES_H_
#define SLUICE_FRAMEWORK_CONFORMANCE_CASE_VALUES_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/graph/op_def.h"

namespace sluice {

// Uniform in [low, high), a function of (seed, index) alone.
double UniformDraw(uint64_t seed, int64_t index, double low, double high);

struct CaseValues {
  std::vector<TensorType> input_types, output_types;
  std::vector<Array> inputs;   // as drawn
  std::vector<Array> outputs;  // of the whole op
  std::vector<Array> updated;  // inputs after it: only those of `updates` ports differ
};
// The seed and the step that reference implementations of random ops get everywhere in these tests.
constexpr uint64_t kCaseSeed = 5;
constexpr int64_t kCaseStep = 3;

absl::StatusOr<CaseValues> RunWhole(const OpDef& op, const OpCase& op_case, uint64_t seed);

// The port of an input, the last port standing for all further ones.
bool Updates(const OpDef& op, size_t input);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_CONFORMANCE_CASE_VALUES_H_
