// The time of one firing of the instructions that boxing lowers to.
#ifndef SLUICE_FRAMEWORK_COMPILER_BOX_TIME_H_
#define SLUICE_FRAMEWORK_COMPILER_BOX_TIME_H_

#include <cstdint>

#include "framework/compiler/task_graph.h"
#include "framework/machine/machine.h"
#include "framework/sbp/phase_price.h"

namespace sluice {

// Of a task that reads its own device alone: boxing over time. `element`: bytes of one.
void SetOwnTime(const Machine& machine, int64_t element, Task* task);

// Of a step of a phase: the same links and the same formula as selection's price, so that what was
// chosen for its time has that time on the clock. A machine that knows the times of kernels takes
// those for what stays in a node, where peers are read in place.
void SetStepTime(const Machine& machine, DType dtype, const PhaseStepLoad& load, Task* task);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMPILER_BOX_TIME_H_
