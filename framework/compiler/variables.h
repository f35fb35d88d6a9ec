// Where the variables of a plan lie: every program sees the same ones, by name, in the layout that
// the first program that has them gave them. Their bytes come first in a device's memory, in the
// order in which they are met. Pure; any thread.
#ifndef SLUICE_FRAMEWORK_COMPILER_VARIABLES_H_
#define SLUICE_FRAMEWORK_COMPILER_VARIABLES_H_

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "framework/compiler/compile.h"

namespace sluice {

// Gives the plan the variables of all programs, with a shard on each device of their stage that the
// plan holds: a rank's, or the representatives. Device.variable_bytes becomes what lies there, of
// such devices and of those that represent a class. Of devices with the same box one saves it:
// the one at coordinate 0 along each axis that does not split the variable.
void AddVariables(Compilation* compilation);

// Caches are no variables of the plan: each program that has some has them among its own bytes, at
// the same place as every other such program, and so they lie over the activations of programs
// without. InvalidArgument where two programs have not the same ones, or one does not write to a
// cache.
absl::Status CheckCaches(absl::Span<const CompiledProgram> programs);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMPILER_VARIABLES_H_
