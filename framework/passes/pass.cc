#include "framework/passes/pass.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/graph/verify.h"

namespace sluice {

absl::StatusOr<std::unique_ptr<Graph>> RunPasses(const Graph& graph,
                                                 absl::Span<const GraphPass> passes) {
  RETURN_IF_ERROR(graph.status());
  if (passes.empty()) return graph.Copy();
  std::unique_ptr<Graph> at;  // none yet: `graph`
  for (const GraphPass& pass : passes) {
    const std::string where = absl::StrCat("pass ", pass.name);
    absl::StatusOr<std::unique_ptr<Graph>> made = pass.run(at == nullptr ? graph : *at);
    RETURN_IF_ERROR(AddContext(made.status(), where));
    RETURN_IF_ERROR(AddContext(VerifyGraph(**made), where));
    at = *std::move(made);
  }
  return at;
}

absl::Status ApplyPasses(absl::Span<const GraphPass> passes, Graph* graph) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Graph> made, RunPasses(*graph, passes));
  *graph = std::move(*made);
  return absl::OkStatus();
}

}  // namespace sluice
