// What a traced run adds to an explanation: beside each predicted span the measured one, and each
// wait with its register and who owed it. Pure; any thread.
#ifndef SLUICE_FRAMEWORK_SESSION_EXPLAIN_MEASURED_H_
#define SLUICE_FRAMEWORK_SESSION_EXPLAIN_MEASURED_H_

#include "absl/types/span.h"
#include "framework/explain/explanation.h"
#include "framework/plan/plan.pb.h"
#include "framework/runtime/trace.h"

namespace sluice {

// Sets `measured` of each program that ran. `explanation` is of the plan; `workers` have stopped.
void AddMeasured(const plan::Plan& plan, absl::Span<const WorkerTrace* const> workers,
                 Explanation* explanation);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_SESSION_EXPLAIN_MEASURED_H_
