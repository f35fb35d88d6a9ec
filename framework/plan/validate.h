// What must hold of a program before a run of it means anything. Liveness is not here: proof.h.
// Errors name actor, register or scope. Pure; any thread.
#ifndef SLUICE_FRAMEWORK_PLAN_VALIDATE_H_
#define SLUICE_FRAMEWORK_PLAN_VALIDATE_H_

#include <vector>

#include "absl/status/status.h"
#include "framework/base/stop.h"
#include "framework/plan/program_index.h"

namespace sluice {

// Tokens emitted and taken in a step agree; tokens fit their slots; rings and states are whole.
absl::Status CheckRates(const ProgramIndex& index);
// Collectives: equal firings, one a device, on listed streams, one list a device. Every list has
// each instance of its stream exactly once.
absl::Status CheckOrder(const ProgramIndex& index);
// Both.
absl::Status ValidateProgram(const ProgramIndex& index);
// The same of a program whose index is not built yet. An order that has not been recorded at all is
// not asked for.
absl::Status ValidateProgram(const plan::Program& program);
// Every program, its devices and variables. Of no bytes: nothing need have a place.
// `indexes`, if not null, gets that of each program: to build one takes a good part of the time.
absl::Status ValidateUnpackedPlan(const plan::Plan& plan, const Stop& stop = {},
                                  std::vector<ProgramIndex>* indexes = nullptr);
// The same, and that all bytes lie within what they are said to be of (validate_places.h): what has
// passed this can be loaded and run without harm, wherever it came from. Cancelled where `stop`
// says so.
absl::Status ValidatePlan(const plan::Plan& plan, const Stop& stop = {},
                          std::vector<ProgramIndex>* indexes = nullptr);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_PLAN_VALIDATE_H_
