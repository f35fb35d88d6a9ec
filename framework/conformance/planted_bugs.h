// Bugs to plant, one at a time, in rules, boxing and lowering: the random graphs must find each.
// A bug of a rule changes an op's signatures before a plan is compiled; all others change the plan,
// everywhere where it applies, as a fault of the code that made it would.
#ifndef SLUICE_FRAMEWORK_CONFORMANCE_PLANTED_BUGS_H_
#define SLUICE_FRAMEWORK_CONFORMANCE_PLANTED_BUGS_H_

#include <string>

#include "absl/types/span.h"
#include "framework/graph/graph.h"
#include "framework/plan/plan.pb.h"

namespace sluice {

struct RuleBug {
  const char* name;
  const OpDef& (*op)();
  // The op's signatures, wrong.
  absl::StatusOr<std::vector<Signature>> (*signatures)(const OpCall& call, int64_t shards);
};
absl::Span<const RuleBug> RuleBugs();
OpDef WrongOp(const RuleBug& bug);
// Puts the wrong op, which must outlive the graph, in place of the right one; false if the graph
// does not have it.
bool Plant(const OpDef& wrong, Graph* graph);

struct PlanBug {
  const char* name;
  // False if there is nothing in the plan that it would change.
  bool (*plant)(plan::Plan* plan);
};
absl::Span<const PlanBug> PlanBugs();

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_CONFORMANCE_PLANTED_BUGS_H_
