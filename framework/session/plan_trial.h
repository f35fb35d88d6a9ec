// For tests of plans from elsewhere: starts one on devices of a kind, and runs what starts.
#ifndef SLUICE_FRAMEWORK_SESSION_PLAN_TRIAL_H_
#define SLUICE_FRAMEWORK_SESSION_PLAN_TRIAL_H_

#include "absl/status/status.h"
#include "framework/plan/plan.pb.h"

namespace sluice {

// Whether a plan that validates asks for no more than a test can give it.
bool IsSmall(const plan::Plan& plan);
// What a plan is fed with: the host's tensors, or rows of a data set, which devices read for
// themselves; what has no dimension for rows is a tensor all the same.
enum class Fed { kTensors, kRows };
// Two steps of each program, fed with zeros. The error of the start or of a step, or OK. A plan
// that asks a data set for what no sample has ends the process.
absl::Status TryPlan(plan::Plan plan, plan::DeviceKind kind, Fed fed = Fed::kTensors);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_SESSION_PLAN_TRIAL_H_
