// Why a plan is as it is: an Explanation from what the phases of Compile left, and its text for
// people. The compiler knows nothing of this package. Pure; any thread.
#ifndef SLUICE_FRAMEWORK_EXPLAIN_EXPLAIN_H_
#define SLUICE_FRAMEWORK_EXPLAIN_EXPLAIN_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/compiler/compile.h"
#include "framework/explain/explanation.h"
#include "framework/machine/machine.h"

namespace sluice {

// `machine`: that it was compiled for, which knows the hosts. Errors: of a plan that its index
// refuses.
absl::StatusOr<Explanation> Explain(const Compilation& compilation, const Machine& machine);

// For each program: a line per node with what its signature cost against the others, a line per
// instruction that is many nodes, a line per boxing, and memory and time.
std::string ExplanationText(const Explanation& explanation);
// What a plan is too large by: the ten largest tensors, variables among them, that are alive at the
// peak of the program and device that need the most bytes, a line each.
std::string LargestAtPeak(const Explanation& explanation);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_EXPLAIN_EXPLAIN_H_
