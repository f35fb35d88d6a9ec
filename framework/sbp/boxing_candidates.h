// All ways of boxing that the planner knows for one pair, priced; PlanBoxing takes the cheapest.
// Tests execute every one of them. Internal to framework/sbp.
#ifndef SLUICE_FRAMEWORK_SBP_BOXING_CANDIDATES_H_
#define SLUICE_FRAMEWORK_SBP_BOXING_CANDIDATES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/sbp/boxing.h"
#include "framework/sbp/boxing_moves.h"

namespace sluice {

// An error unless both NdSbps suit their meshes and the shape, and at most one reduction is
// partial.
absl::Status CheckPair(const Layout& from, const Layout& to, const Shape& shape);

// A problem over some of the devices, and its solution.
struct BoxingGroup {
  std::vector<int> devices;  // what device i of the problem is, in the Boxing's numbering
  BoxingProblem problem;
  Moves moves;
};

// Groups that run side by side, over disjoint devices.
using BoxingStage = std::vector<BoxingGroup>;

struct BoxingCandidate {
  std::string recipe;
  std::vector<BoxingStage> stages;  // one after another; each starts from what the last one left
  std::vector<BoxingAxis> axes;     // of a path, by stage
  BoxingCost cost;
};

// The composition rule on one mesh: the cheapest chain of one-axis changes through NdSbps whose
// shards are no larger than the larger of the two ends. False if there is no such chain, or, with a
// bound, none that costs as little. Its numbering of devices is that of the mesh.
bool CheapestPath(const Mesh& mesh, const NdSbp& from, const NdSbp& to, const Shape& shape,
                  DType dtype, const Machine& machine, const BoxingCost* bound,
                  BoxingCandidate* path);

// The same for even shards on a mesh of any size: prices in closed form, from the extents of one
// shard and the nodes of the axes' groups, and stages of the groups of `wanted` devices alone, with
// their share alone. False also where a shard is uneven or empty.
bool CheapestEvenPath(const Mesh& mesh, const NdSbp& from, const NdSbp& to, const Shape& shape,
                      DType dtype, const Machine& machine, const std::vector<int>& wanted,
                      BoxingCandidate* path);

// Boxing of a large mesh, whose cost does not grow with the mesh but with `wanted`, ascending: an
// even path, and a copy from device to device where the meshes are two of the same axes. NotFound
// where that cannot be done.
absl::StatusOr<Boxing> PlanLargeBoxing(const Layout& from, const Layout& to, const Shape& shape,
                                       DType dtype, const Machine& machine,
                                       absl::Span<const DeviceId> wanted);

// The writes of `wanted` devices, as indices into `devices`, and the buffers that they read.
Boxing AssembleShare(const BoxingCandidate& candidate, const std::vector<DeviceId>& devices,
                     const Layout& from, const Layout& to, const Shape& shape,
                     const std::vector<int>& wanted);

// Writes a candidate out as buffers and steps. `devices` names the numbering.
Boxing AssembleBoxing(const BoxingCandidate& candidate, const std::vector<DeviceId>& devices,
                      const Layout& from, const Layout& to, const Shape& shape);

// Every candidate, in the order in which ties are broken.
absl::StatusOr<std::vector<Boxing>> BoxingCandidates(const Layout& from, const Layout& to,
                                                     const Shape& shape, DType dtype,
                                                     const Machine& machine);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_SBP_BOXING_CANDIDATES_H_
