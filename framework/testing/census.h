// Counts what a set of compiled graphs made use of, so that a test can assert that random graphs
// reach everything there is. One thread.
#ifndef SLUICE_FRAMEWORK_TESTING_CENSUS_H_
#define SLUICE_FRAMEWORK_TESTING_CENSUS_H_

#include <map>
#include <set>
#include <string>

#include "framework/compiler/grid.h"
#include "framework/compiler/select_sbp.h"
#include "framework/compiler/task_graph.h"
#include "framework/graph/graph.h"

namespace sluice {

struct Census {
  // Boxings by the change they make: "B->S", "S->S'", "P->P'" (another axis owes) and so on where
  // one mesh is both ends; "across stages" and "over time: pack" else.
  std::map<std::string, int> changes;
  std::map<std::string, int> recipes;     // "all_reduce", "general:direct", ..
  std::map<std::string, int> ops;         // nodes, by op
  std::map<std::string, int> signatures;  // "matmul k": factors chosen on axes that split
  std::map<std::string, int> forward;     // nodes that are part of no gradient, by op
  // Of which ops an op was part of the gradient.
  std::map<std::string, std::set<std::string>> gradient_of;

  void Add(const Graph& graph, const Grid& grid, const SbpAssignment& assignment,
           const TaskGraph& tasks);
  std::string ToString() const;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TESTING_CENSUS_H_
