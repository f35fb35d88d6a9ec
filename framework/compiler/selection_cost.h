// Prices what selection compares: an op's compute on its largest shard, and boxing over space and
// time. Lowering emits the boxings that are priced here.
#ifndef SLUICE_FRAMEWORK_COMPILER_SELECTION_COST_H_
#define SLUICE_FRAMEWORK_COMPILER_SELECTION_COST_H_

#include <cstdint>
#include <vector>

#include "framework/compiler/grid.h"
#include "framework/graph/graph.h"
#include "framework/sbp/boxing.h"

namespace sluice {

class SelectionCost {
 public:
  SelectionCost(const Grid& grid, BoxingPlanner* planner, const Machine& machine)
      : grid_(grid), planner_(planner), machine_(machine) {}

  // Nanoseconds a step of a node's largest shard.
  int64_t Compute(const Graph& graph, const Node& node, const std::vector<GridSbp>& inputs,
                  const std::vector<GridSbp>& outputs) const;
  // Nanoseconds a step to bring a tensor from one layout and stage to another; -1: impossible.
  // Over time: accumulate (P->B), pack (S->B) and slice (B->S), before any boxing over space; what
  // is packed by position is brought there first.
  int64_t Boxing(const TensorType& type, const GridSbp& from, int64_t from_stage, const GridSbp& to,
                 int64_t to_stage) const;

 private:
  // To read and write the largest shard of each micro-batch once.
  int64_t OverTime(const TensorType& type, const GridSbp& sbp) const;

  const Grid& grid_;
  BoxingPlanner* planner_;
  const Machine& machine_;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMPILER_SELECTION_COST_H_
