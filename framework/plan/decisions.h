// What ranks have to agree on before they run a plan together. Each compiles for itself, from the
// same graphs, and what it decides must not depend on anything that it alone knows. So ranks
// compare a rolling digest of the decisions, one entry a decision, layer by layer: all signatures,
// then all boxings, then numbers, quotas and bytes, then reuse edges, then orders. In this order,
// because a later decision differs everywhere once an earlier one does. Pure; any thread.
#ifndef SLUICE_FRAMEWORK_PLAN_DECISIONS_H_
#define SLUICE_FRAMEWORK_PLAN_DECISIONS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "framework/plan/plan.pb.h"

namespace sluice {

class DecisionRoll {
 public:
  explicit DecisionRoll(plan::Plan* plan) : plan_(*plan) {}
  // `what` names it for people; `decided` is what was decided.
  void Add(absl::string_view what, absl::string_view decided);

 private:
  plan::Plan& plan_;
};

// One line a decision, as ranks send it.
std::string DecisionsText(const plan::Plan& plan);
// FailedPrecondition names the first one that differs. `mine` is of this rank.
absl::Status CompareDecisions(absl::string_view mine, absl::string_view theirs);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_PLAN_DECISIONS_H_
