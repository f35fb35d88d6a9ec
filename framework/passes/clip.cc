#include "framework/passes/clip.h"

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/ops/ops.h"

namespace sluice {

GlobalNorm AddGlobalNorm(Graph* graph, const VariableGradients& gradients, double max_norm) {
  Graph::Context context;
  context.phase = Phase::kUpdate;
  std::map<int32_t, std::vector<Tensor>> squares;  // by stage
  for (const auto& entry : gradients) {
    const Node& variable = graph->node(graph->tensor(entry.first).producer);
    context.stage = variable.stage;
    context.scope = variable.name;
    graph->set_context(context);
    squares[*context.stage].push_back(SumSquares(entry.second));
  }
  std::vector<Tensor> stages;
  for (const auto& entry : squares) {
    context.stage = entry.first;
    context.scope = absl::StrCat("clip/stage", entry.first);
    graph->set_context(context);
    stages.push_back(entry.second.size() > 1 ? AddN(entry.second) : entry.second[0]);
  }
  GlobalNorm result;
  const auto name = [&](absl::string_view scope) {  // on the last stage that has gradients
    context.scope = std::string(scope);
    graph->set_context(context);
  };
  if (!stages.empty()) {
    name("clip/sum");
    const Tensor sum = stages.size() > 1 ? AddN(stages) : stages[0];
    name("clip/norm");
    result.norm = Sqrt(sum);
    name("clip/factor");
    if (max_norm > 0) result.factor = ClipFactor(sum, max_norm);
  }
  graph->set_context({});
  return result;
}

}  // namespace sluice
