// A session over a plan that is already there: what Session::Start does after compiling. Tests
// start hand-made and deliberately broken plans here.
#ifndef SLUICE_FRAMEWORK_SESSION_PLAN_SESSION_H_
#define SLUICE_FRAMEWORK_SESSION_PLAN_SESSION_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "framework/plan/plan.pb.h"
#include "framework/runtime/runtime.h"
#include "framework/session/session.h"

namespace sluice {

// Starts the workers and sets every variable to its initial value under options.seed. Cancelled
// where options.stop says so.
absl::StatusOr<std::unique_ptr<Session>> StartPlan(plan::Plan plan, const RuntimeOptions& options);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_SESSION_PLAN_SESSION_H_
