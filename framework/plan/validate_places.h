// That all that a plan says of bytes lies within what it says it of: sizes, offsets, slots, ports,
// regions, types. What passes reads and writes no byte outside of its devices' memory, if kernels
// keep to the shards of their operands. Errors name program, actor, instruction, what, expected and
// got. Pure; any thread.
#ifndef SLUICE_FRAMEWORK_PLAN_VALIDATE_PLACES_H_
#define SLUICE_FRAMEWORK_PLAN_VALIDATE_PLACES_H_

#include "absl/status/status.h"
#include "framework/plan/program_index.h"

namespace sluice {

// That each slot of a register's ring has an offset, and nothing else has.
absl::Status CheckSlotOffsets(const ProgramIndex& index, int r);
// Of the devices' sizes and the variables, whose shards name devices that there are.
absl::Status CheckVariables(const plan::Plan& plan);
// Of one of the plan's programs, whose streams and registers name devices that there are.
absl::Status CheckPlaces(const plan::Plan& plan, const ProgramIndex& index);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_PLAN_VALIDATE_PLACES_H_
