#include "framework/passes/pass.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/graph/rewriter.h"
#include "framework/graph/verify.h"

namespace sluice {

absl::StatusOr<std::unique_ptr<Graph>> RunPasses(const Graph& graph,
                                                 absl::Span<const GraphPass> passes) {
  ASSIGN_OR_RETURN(
      std::unique_ptr<Graph> at,
      RewriteGraph(graph, [](const Node& node, GraphRewriter* rewriter) { rewriter->Copy(node); }));
  for (const GraphPass& pass : passes) {
    const std::string where = absl::StrCat("pass ", pass.name);
    absl::StatusOr<std::unique_ptr<Graph>> made = pass.run(*at);
    RETURN_IF_ERROR(AddContext(made.status(), where));
    RETURN_IF_ERROR(AddContext(VerifyGraph(**made), where));
    at = *std::move(made);
  }
  return at;
}

}  // namespace sluice
