// Chooses an SBP signature for every node: annotations of the user first, then the rules of
// selection_rules.h, then cost (docs/sbp.md). Greedy in topological order: forward, backward bound
// to its forward op's factors, updates. The rules do the work; cost breaks ties among what they
// leave.
#ifndef SLUICE_FRAMEWORK_COMPILER_SELECT_SBP_H_
#define SLUICE_FRAMEWORK_COMPILER_SELECT_SBP_H_

#include "absl/status/statusor.h"
#include "framework/base/stop.h"
#include "framework/compiler/grid.h"
#include "framework/compiler/sbp_assignment.h"
#include "framework/graph/graph.h"
#include "framework/sbp/boxing.h"

namespace sluice {

// `fixed` gives the layouts of variables that an earlier program has settled; those of this one
// are added. Errors: an annotation that no signature takes, a batch that micro does not divide, a
// batch shorter than its axes.
absl::StatusOr<SbpAssignment> SelectSbp(const Graph& graph, const Grid& grid,
                                        BoxingPlanner* planner, const Machine& machine,
                                        VariableLayouts* fixed, const Stop& stop = {});

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMPILER_SELECT_SBP_H_
