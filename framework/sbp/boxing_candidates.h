// All ways of boxing that the planner knows for one pair, priced; PlanBoxing takes the cheapest.
// Tests execute every one of them. Internal to framework/sbp.
#ifndef SLUICE_FRAMEWORK_SBP_BOXING_CANDIDATES_H_
#define SLUICE_FRAMEWORK_SBP_BOXING_CANDIDATES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/sbp/boxing.h"
#include "framework/sbp/boxing_moves.h"

namespace sluice {

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
  BoxingCost cost;
};

// The composition rule on one mesh: the cheapest chain of one-axis changes through NdSbps whose
// parts are no larger than the larger of the two ends. False if there is no such chain, or, with a
// bound, none that costs as little. Its numbering of devices is that of the mesh.
bool CheapestPath(const Mesh& mesh, const NdSbp& from, const NdSbp& to, const Shape& shape,
                  DType dtype, const Machine& machine, const BoxingCost* bound,
                  BoxingCandidate* path);

// Writes a candidate out as buffers and steps. `devices` names the numbering.
Boxing AssembleBoxing(const BoxingCandidate& candidate, const std::vector<DeviceId>& devices,
                      const Layout& from, const Layout& to, const Shape& shape);

// Every candidate, in the order in which ties are broken.
absl::StatusOr<std::vector<Boxing>> BoxingCandidates(const Layout& from, const Layout& to,
                                                     const Shape& shape, DType dtype,
                                                     const Machine& machine);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_SBP_BOXING_CANDIDATES_H_
