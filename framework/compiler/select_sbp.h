// Chooses an SBP signature for every node: words of the user first, then rules of legality, then
// cost (docs/sbp.md). Greedy in topological order: forward, backward bound to its forward op's
// factors, updates. The rules do the work; cost breaks ties among what they leave.
#ifndef SLUICE_FRAMEWORK_COMPILER_SELECT_SBP_H_
#define SLUICE_FRAMEWORK_COMPILER_SELECT_SBP_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/compiler/grid.h"
#include "framework/graph/graph.h"
#include "framework/sbp/boxing.h"

namespace sluice {

struct Choice {
  std::vector<Signature> signatures;                          // one per axis of the grid
  std::vector<NdSbp> inputs, outputs;                         // one per operand
  int64_t nanoseconds = 0;                                    // compute and boxing of the chosen
  std::vector<std::pair<std::string, int64_t>> alternatives;  // what else was legal, and its cost
};

// "data:S0,B->S0 model:B,S1->S1"; axes of one shard are left out. "B" where none is left.
std::string DescribeSignatures(const Choice& choice, const Grid& grid);

struct SbpAssignment {
  std::vector<Choice> choices;  // by node
  std::vector<NdSbp> produced;  // by tensor: as its producer leaves it; a variable: as stored
  std::vector<NdSbp> consumed;  // by tensor: as annotations on it make readers see it
  std::vector<std::string> warnings;
};

// How the first program reads and stores a variable; other programs take it over.
struct VariableLayout {
  NdSbp use, stored;  // over the space axes only
  int32_t stage = 0;
};
using VariableLayouts = std::map<std::string, VariableLayout>;

// `fixed` gives the layouts of variables that an earlier program has settled; those of this one
// are added. Errors: an annotation that no signature takes, a batch that micro does not divide, a
// batch shorter than its axes.
absl::StatusOr<SbpAssignment> SelectSbp(const Graph& graph, const Grid& grid,
                                        BoxingPlanner* planner, const Machine& machine,
                                        VariableLayouts* fixed);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMPILER_SELECT_SBP_H_
