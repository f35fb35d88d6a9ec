// The assignment while it is being made: what the walk has settled so far, and the pure functions
// that read it. `OnAxis` says what a node finds there, for the rules; `Price` what a choice costs
// on top of it.
#ifndef SLUICE_FRAMEWORK_COMPILER_SELECTION_STATE_H_
#define SLUICE_FRAMEWORK_COMPILER_SELECTION_STATE_H_

#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "framework/compiler/grid.h"
#include "framework/compiler/layout_constraints.h"
#include "framework/compiler/sbp_assignment.h"
#include "framework/compiler/selection_cost.h"
#include "framework/graph/graph.h"

namespace sluice {

// What stays as it is while signatures are chosen.
struct SelectionProblem {
  const Graph& graph;
  const Grid& grid;
  std::vector<LayoutConstraint> constraints;  // by tensor
};

struct SelectionState {
  SelectionState(const Graph& graph, const Grid& grid);

  SbpAssignment assignment;
  std::vector<bool> settled;                         // by tensor: produced and consumed are known
  std::map<TensorId, GridSbp> use;                   // of settled variables: as forward reads them
  std::map<TensorId, std::vector<GridSbp>> readers;  // of variables, in the forward phase
  // The layouts and stages that a tensor has been brought to: further readers there pay nothing.
  std::set<std::tuple<TensorId, GridSbp, int32_t>> paid;
};

NodeOnAxis OnAxis(const SelectionProblem& problem, const SelectionState& state, const Node& node,
                  size_t axis);
// Nanoseconds a step, of compute and of boxing what is not there yet; -1: nothing boxes so.
int64_t Price(const SelectionProblem& problem, const SelectionState& state,
              const SelectionCost& cost, const Node& node, const Choice& choice);

// Settle the layouts of what no node makes. Inputs: by their annotations; an error if the batch
// does not suit the grid. Variables that an earlier program has settled: as there, before any node.
// All others: from their forward readers, when these are chosen; `fixed` gets them.
absl::Status SettleInputs(const SelectionProblem& problem, SelectionState* state);
void TakeOverVariables(const SelectionProblem& problem, const VariableLayouts& fixed,
                       SelectionState* state);
void SettleVariables(const SelectionProblem& problem, SelectionState* state,
                     VariableLayouts* fixed);
// Operands that the node reads whole over time and split along a factor whose positions may stand
// in any order: where all of them come in micro-batches, each device packs its own pieces.
void PackByPosition(const SelectionProblem& problem, const SelectionState& state, const Node& node,
                    Choice* choice);
// Settles what the node makes.
void Take(const SelectionProblem& problem, const Node& node, Choice choice, SelectionState* state);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMPILER_SELECTION_STATE_H_
