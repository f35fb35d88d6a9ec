// Where the variables of a plan lie: every program sees the same ones, by name, in the layout that
// the first program that has them gave them. Their bytes come first in a device's memory, in the
// order in which they are met. Pure; any thread.
#ifndef SLUICE_FRAMEWORK_COMPILER_VARIABLES_H_
#define SLUICE_FRAMEWORK_COMPILER_VARIABLES_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "framework/compiler/device_classes.h"
#include "framework/compiler/grid.h"
#include "framework/compiler/select_sbp.h"
#include "framework/graph/graph.h"
#include "framework/plan/plan.pb.h"

namespace sluice {

// Adds the variables of a program that `plan` lacks, with a shard on each device of their stage
// that `wanted` names. Device.variable_bytes grows by what lies there, of wanted devices and of
// those that represent a class. Of devices with the same box one saves it: the one at coordinate 0
// along each axis that does not split the variable.
void AddVariables(const Graph& graph, const Grid& grid, const SbpAssignment& assignment,
                  const DeviceClasses& classes, absl::FunctionRef<bool(int32_t device)> wanted,
                  plan::Plan* plan);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMPILER_VARIABLES_H_
