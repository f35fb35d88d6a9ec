#include "framework/passes/clip.h"

#include <string>
#include <vector>

#include "framework/ops/ops.h"

namespace sluice {

GlobalNorm AddGlobalNorm(Graph* graph, const VariableGradients& gradients, double max_norm) {
  const Graph::Context outer = graph->context();
  const auto enter = [&](absl::string_view scope) {
    Graph::Context context;
    context.phase = Phase::kUpdate;
    context.scope = std::string(scope);
    graph->set_context(context);
  };
  GlobalNorm result;
  std::vector<Tensor>& squares = result.squares;
  for (const auto& entry : gradients) {
    enter(graph->node(graph->tensor(entry.first).producer).name);
    squares.push_back(SumSquares(Tensor(graph, entry.first), entry.second));
  }
  if (!squares.empty()) {
    enter("clip/sum");
    const Tensor sum = AddN(squares);
    enter("clip/norm");
    result.norm = Sqrt(sum);
    enter("clip/factor");
    if (max_norm > 0) result.factor = ClipFactor(sum, max_norm);
  }
  graph->set_context(outer);
  return result;
}

}  // namespace sluice
