// The backward pass: adds to a graph the gradients of a loss with respect to the variables.
#ifndef SLUICE_FRAMEWORK_PASSES_BACKWARD_H_
#define SLUICE_FRAMEWORK_PASSES_BACKWARD_H_

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "framework/graph/graph.h"

namespace sluice {

// A variable and its gradient.
using VariableGradients = std::vector<std::pair<TensorId, Gradient>>;

// Adds the gradients of the sum of `loss` for every variable that it depends on, in the order of
// the variables, and gives the dense ones the role of a gradient. Each node added is of the
// backward phase and knows its forward node; sums of a variable's gradients know none and stand on
// the variable's stage. Nothing is computed for inputs. Gradients of a table stay rows unless a
// dense one joins.
absl::Status AddBackward(Graph* graph, Tensor loss, VariableGradients* gradients);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_PASSES_BACKWARD_H_
