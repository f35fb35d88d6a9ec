// Moves tasks of a script to where fewer bytes are alive, as far as data allow: no value changes,
// and between scripts and devices nothing does.
//
// An update runs as soon as it can, in backward's script, where the bytes of its gradient are then
// free for the next one, and the gradient is still in a cache. So does the sum of its squares.
// Where gradients are clipped all stays, as updates wait for the last gradient.
//
// What is made much earlier than it is read, and is larger by a MiB than what waits for it, is made
// right before it is read: of a table that is tied to the last layer, the gradient that comes first
// is as large as the table and waits for the one that comes last.
//
// Decided by phases, rates and extents of logical tensors alone, so that all devices of a stage
// decide alike. Devices of CUDA keep the order that they have: there updates are joined
// (join_calls.h).
#ifndef SLUICE_FRAMEWORK_COMPILER_ORDER_TASKS_H_
#define SLUICE_FRAMEWORK_COMPILER_ORDER_TASKS_H_

#include "framework/compiler/task_graph.h"
#include "framework/sbp/mesh.h"

namespace sluice {

// Pure; any thread.
void OrderTasks(const Mesh& mesh, TaskGraph* tasks);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMPILER_ORDER_TASKS_H_
