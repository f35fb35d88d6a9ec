// An op's definition run on the parts of its operands, and the parts put together again: what a
// signature promises, tried out. Layouts here are lists of Sbp over a few axes; no devices.
#ifndef SLUICE_FRAMEWORK_CONFORMANCE_PART_RUN_H_
#define SLUICE_FRAMEWORK_CONFORMANCE_PART_RUN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "framework/conformance/case_values.h"
#include "framework/sbp/index_rule.h"

namespace sluice {

// One Sbp per axis, outermost first; Extents of the axes beside it.
using AxisSbps = std::vector<Sbp>;
using AxisParts = std::vector<int64_t>;

// The box at coordinates, cut outermost axis first; where an axis is not S it is whole.
Box BoxAt(const Shape& shape, const AxisSbps& sbps, const AxisParts& parts,
          const AxisParts& coordinates);
// Every point of the axes, the last axis fastest.
std::vector<AxisParts> AllCoordinates(const AxisParts& parts);

// What every point holds of one tensor. P inputs get random partials that reduce to the whole.
std::vector<PartArray> Scatter(const TensorType& type, const Array& whole, const AxisSbps& sbps,
                               const AxisParts& parts, uint64_t seed);
// Puts the points together; an error where replicas differ or an element is missing.
absl::StatusOr<Array> Assemble(const std::vector<PartArray>& points, const Shape& shape,
                               const AxisSbps& sbps, const AxisParts& parts);
// Whether two arrays agree to 1e-9 of the largest value (infinities: exactly).
bool AlmostEqual(const Array& a, const Array& b);

// The results at every point: of the outputs, and of the inputs after the op.
struct PartResults {
  std::vector<std::vector<PartArray>> outputs, updated;  // [tensor][point]
};
// `inputs` and `outputs`: the layout of each tensor; of outputs only S matters.
absl::StatusOr<PartResults> RunParts(const OpDef& op, const OpCase& op_case,
                                     const CaseValues& values, const std::vector<AxisSbps>& inputs,
                                     const std::vector<AxisSbps>& outputs, const AxisParts& parts);

// Runs the parts under one signature per axis and compares the assembled outputs (and variables)
// with the whole; the error says what differs.
absl::Status CheckSignatures(const OpDef& op, const OpCase& op_case, const CaseValues& values,
                             const std::vector<Signature>& signatures, const AxisParts& parts);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_CONFORMANCE_PART_RUN_H_
