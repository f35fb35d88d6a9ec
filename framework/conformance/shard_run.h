// An op's reference implementation run on the shards of its operands, and the shards put together
// again: what a signature promises, tried out. Layouts here are lists of Sbp over a few axes; no
// devices.
#ifndef SLUICE_FRAMEWORK_CONFORMANCE_SHARD_RUN_H_
#define SLUICE_FRAMEWORK_CONFORMANCE_SHARD_RUN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "framework/conformance/case_values.h"
#include "framework/sbp/index_rule.h"

namespace sluice {

// One Sbp per axis, outermost first; Extents of the axes beside it.
using AxisSbps = std::vector<Sbp>;
using AxisShards = std::vector<int64_t>;

// The box at coordinates, cut outermost axis first; where an axis is not S it is whole.
Box BoxAt(const Shape& shape, const AxisSbps& sbps, const AxisShards& shards,
          const AxisShards& coordinates);
// Every point of the axes, the last axis fastest.
std::vector<AxisShards> AllCoordinates(const AxisShards& shards);

// What every point holds of one tensor. P inputs get random partials that reduce to the whole.
std::vector<ShardArray> Scatter(const TensorType& type, const Array& whole, const AxisSbps& sbps,
                                const AxisShards& shards, uint64_t seed);
// Puts the points together; an error where replicas differ or an element is missing.
absl::StatusOr<Array> Assemble(const std::vector<ShardArray>& points, const Shape& shape,
                               const AxisSbps& sbps, const AxisShards& shards);
// Whether two arrays agree to 1e-9 of the largest value (infinities: exactly).
bool AlmostEqual(const Array& a, const Array& b);

// The results at every point: of the outputs, and of the inputs after the op.
struct ShardResults {
  std::vector<std::vector<ShardArray>> outputs, updated;  // [tensor][point]
};
// `inputs` and `outputs`: the layout of each tensor; of outputs only S matters.
absl::StatusOr<ShardResults> RunShards(const OpDef& op, const OpCase& op_case,
                                       const CaseValues& values,
                                       const std::vector<AxisSbps>& inputs,
                                       const std::vector<AxisSbps>& outputs,
                                       const AxisShards& shards);

// Runs the shards under one signature per axis and compares the assembled outputs (and variables)
// with the whole; the error says what differs.
absl::Status CheckSignatures(const OpDef& op, const OpCase& op_case, const CaseValues& values,
                             const std::vector<Signature>& signatures, const AxisShards& shards);

// What Signature.any_order promises: runs the whole op on operands that are all permuted alike
// along the factor, and compares the outputs with those of the operands as they are.
absl::Status CheckAnyOrder(const OpDef& op, const OpCase& op_case, const CaseValues& values,
                           const Signature& signature);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_CONFORMANCE_SHARD_RUN_H_
