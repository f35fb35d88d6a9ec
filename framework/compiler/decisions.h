// Notes what the phases of the compiler have decided, for ranks to compare (plan/decisions.h): all
// of it is about stages, so it is the same on every rank or somebody has gone wrong.
#ifndef SLUICE_FRAMEWORK_COMPILER_DECISIONS_H_
#define SLUICE_FRAMEWORK_COMPILER_DECISIONS_H_

#include "framework/compiler/compile.h"
#include "framework/plan/decisions.h"

namespace sluice {

// Both add nothing where there is one rank, which has nobody to compare with.
// What was asked for, the signature of every op, then every boxing of the representatives' tasks.
// Returns the roll, for what follows.
DecisionRoll AddDecisions(const CompileOptions& options, absl::Span<const CompiledProgram> programs,
                          plan::Plan* plan);
// Of the representative program: registers, then reuse edges, then orders.
void AddPlaced(const CompileOptions& options, const plan::Program& placed, DecisionRoll* roll);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMPILER_DECISIONS_H_
