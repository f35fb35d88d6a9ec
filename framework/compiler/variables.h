// Where the variables of a plan lie: every program sees the same ones, by name, in the layout that
// the first program that has them gave them. Their bytes come first in a device's memory, in the
// order in which they are met. Pure; any thread.
#ifndef SLUICE_FRAMEWORK_COMPILER_VARIABLES_H_
#define SLUICE_FRAMEWORK_COMPILER_VARIABLES_H_

#include "framework/compiler/compile.h"

namespace sluice {

// Gives the plan the variables of all programs, with a shard on each device of their stage that the
// plan holds: a rank's, or the representatives. Device.variable_bytes becomes what lies there, of
// such devices and of those that represent a class. Of devices with the same box one saves it:
// the one at coordinate 0 along each axis that does not split the variable.
void AddVariables(Compilation* compilation);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMPILER_VARIABLES_H_
