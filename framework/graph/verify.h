// What must hold of every finished graph. The builder keeps it; passes and hand-written text are
// checked for it. Any thread.
#ifndef SLUICE_FRAMEWORK_GRAPH_VERIFY_H_
#define SLUICE_FRAMEWORK_GRAPH_VERIFY_H_

#include "absl/status/status.h"
#include "framework/graph/graph.h"

namespace sluice {

// Nodes stand in topological order and their types are those that inference gives; names are
// unique; only variables are updated, each by one node of the update phase, after all its readers;
// no phase reads a later one; a backward node is on its forward node's stage; annotations fit the
// ranks of their tensors; outputs, gradients and states name tensors that are there. Errors name
// the node.
absl::Status VerifyGraph(const Graph& graph);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_GRAPH_VERIFY_H_
