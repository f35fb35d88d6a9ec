// Is a plan right? Its steps against the interpreter's, tensor by tensor. For tests; one thread.
#ifndef SLUICE_FRAMEWORK_TESTING_PARITY_H_
#define SLUICE_FRAMEWORK_TESTING_PARITY_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/graph/graph.h"
#include "framework/graph/interpreter.h"
#include "framework/session/session.h"
#include "framework/testing/plan_executor.h"

namespace sluice {

// What one device computes: outputs of every step, and all variables after it.
struct InterpretedSteps {
  std::vector<ArrayMap> outputs, variables;
};
absl::StatusOr<InterpretedSteps> InterpretSteps(const Graph& graph,
                                                const std::vector<HostTensorMap>& feeds,
                                                uint64_t seed);

// OK if no element is further than `tolerance` times (1 + the largest of its tensor) from the
// reference and none is NaN; otherwise DataLoss names the tensor and its largest difference.
absl::Status CompareArrays(const std::string& name, const Array& expected, const HostTensor& got,
                           double tolerance);

// Runs program 0 of the plan, each step by itself, then compares outputs, variables and replicas.
// With `overlapped`, all steps at once; the variables are then compared after the last.
absl::Status CompareWithReference(const plan::Plan& plan, const std::vector<HostTensorMap>& feeds,
                                  const InterpretedSteps& reference, double tolerance,
                                  const PlanExecutorOptions& options, bool overlapped = false);

// The same of a session that has run nothing yet, with all steps begun before the first is taken:
// what workers and loaded programs compute, against what the reference does.
absl::Status CompareSessionWithReference(Session* session, const std::vector<HostTensorMap>& feeds,
                                         const InterpretedSteps& reference, double tolerance);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TESTING_PARITY_H_
