// Horizontal fusion: tasks of one script that call an op with equal attributes become one task of
// many calls, so that a device that pays for each launch pays once. Each call does what it did
// alone, to the bit; what is joined is done at the place of the last call, or at that of the first
// for casts of parameters and for reductions of what one task made. After lowering, because which
// calls share a script is known only there; ranks need not agree on it, as calls are joined within
// a device and nothing between ranks changes.
#ifndef SLUICE_FRAMEWORK_COMPILER_JOIN_CALLS_H_
#define SLUICE_FRAMEWORK_COMPILER_JOIN_CALLS_H_

#include "framework/compiler/task_graph.h"
#include "framework/graph/graph.h"
#include "framework/sbp/mesh.h"

namespace sluice {

// Joins calls of ops that say so (OpDef::joins), casts of what no task makes, and reductions of
// what one task makes, on CUDA devices. Elsewhere a launch costs next to nothing, and an update
// that waits for no other begins earlier. Pure; any thread.
void JoinCalls(const Graph& graph, const Mesh& mesh, TaskGraph* tasks);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMPILER_JOIN_CALLS_H_
