// A pass makes a graph out of a graph and changes what it means or where it runs: precision,
// recompute, gradients, stages. Passes are listed by whoever builds a program, in the order in
// which they run; each has a name, and the graph is verified after each.
#ifndef SLUICE_FRAMEWORK_PASSES_PASS_H_
#define SLUICE_FRAMEWORK_PASSES_PASS_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/graph/graph.h"

namespace sluice {

struct GraphPass {
  std::string name;  // "cut_stages"
  std::function<absl::StatusOr<std::unique_ptr<Graph>>(const Graph&)> run;
};

// Runs the passes one after the other; none gives a copy. Errors, the verifier's too, name the
// pass.
absl::StatusOr<std::unique_ptr<Graph>> RunPasses(const Graph& graph,
                                                 absl::Span<const GraphPass> passes);
// Puts what they make in the graph's place, which stays as it is after an error.
absl::Status ApplyPasses(absl::Span<const GraphPass> passes, Graph* graph);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_PASSES_PASS_H_
