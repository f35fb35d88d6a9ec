// For tests of plans from elsewhere: starts one on devices of a kind, and runs what starts.
#ifndef SLUICE_FRAMEWORK_SESSION_PLAN_TRIAL_H_
#define SLUICE_FRAMEWORK_SESSION_PLAN_TRIAL_H_

#include "absl/status/status.h"
#include "framework/plan/plan.pb.h"

namespace sluice {

// Whether a plan that validates asks for no more than a test can give it.
bool IsSmall(const plan::Plan& plan);
// Two steps of each program, fed with zeros. The error of the start or of a step, or OK.
absl::Status TryPlan(plan::Plan plan, plan::DeviceKind kind);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_SESSION_PLAN_TRIAL_H_
