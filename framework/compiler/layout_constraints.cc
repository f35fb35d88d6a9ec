#include "framework/compiler/layout_constraints.h"

#include <map>

namespace sluice {

// A parameter is updated where its state lies: the state is what an update reads and writes most
// of, so a gradient is brought to it and not the other way round. Where the state has no annotation
// of its own it lies as its parameter does, and nothing but the gradient moves.
std::vector<LayoutConstraint> LayoutConstraints(const Graph& graph) {
  std::vector<LayoutConstraint> constraints(graph.num_tensors());
  std::map<TensorId, TensorId> first_state;  // by parameter
  for (const auto& [state, parameter] : graph.TensorsOf(Role::kState)) {
    constraints[state].stored_like = parameter;
    first_state.emplace(parameter, state);
  }
  for (const auto& [gradient, parameter] : graph.TensorsOf(Role::kGradient)) {
    const auto state = first_state.find(parameter);
    constraints[gradient].updated_like = state == first_state.end() ? parameter : state->second;
  }
  return constraints;
}

}  // namespace sluice
