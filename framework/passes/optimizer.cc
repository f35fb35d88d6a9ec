#include "framework/passes/optimizer.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/ops/ops.h"
#include "framework/passes/clip.h"

namespace sluice {
namespace {

absl::Status CheckRange(absl::string_view name, double value, double low, double high) {
  if (value >= low && value < high) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("optimizer: ", name, ": expected ", low,
                                                 " <= ", name, " < ", high, ", got ", value));
}

absl::Status CheckOptions(const OptimizerOptions& options) {
  RETURN_IF_ERROR(CheckRange("momentum", options.momentum, 0, 1));
  RETURN_IF_ERROR(CheckRange("beta1", options.beta1, 0, 1));
  RETURN_IF_ERROR(CheckRange("beta2", options.beta2, 0, 1));
  RETURN_IF_ERROR(CheckRange("epsilon", options.epsilon, 0, 1));
  RETURN_IF_ERROR(CheckRange("weight_decay", options.weight_decay, 0, HUGE_VAL));
  return CheckRange("clip", options.clip, 0, HUGE_VAL);
}

// A variable of zeros that lies as `variable` does.
Tensor State(Graph* graph, Tensor variable, absl::string_view suffix) {
  const Node& node = graph->node(graph->tensor(variable.id()).producer);
  const Tensor state = graph->Variable(absl::StrCat(node.name, suffix), variable.dtype(),
                                       variable.shape(), VariableAttributes{}, "", node.stage);
  if (state) graph->SetRole(state.id(), Role::kState, variable.id());
  return state;
}

void AddUpdate(Graph* graph, Tensor variable, const Gradient& gradient, Tensor factor,
               Tensor learning_rate, Tensor step, const OptimizerOptions& options) {
  const double decay = variable.shape().rank() >= 2 ? options.weight_decay : 0;
  if (options.kind == OptimizerOptions::kAdamW) {
    const Tensor m = State(graph, variable, ".m"), v = State(graph, variable, ".v");
    AdamWUpdate(variable, m, v, gradient, factor, learning_rate, step,
                {options.beta1, options.beta2, options.epsilon, decay});
  } else {
    const Tensor momentum = options.momentum > 0 ? State(graph, variable, ".momentum") : Tensor();
    SgdUpdate(variable, momentum, gradient, factor, learning_rate, {options.momentum, decay});
  }
}

}  // namespace

absl::Status AddOptimizer(Graph* graph, const VariableGradients& gradients, Tensor learning_rate,
                          Tensor step, const OptimizerOptions& options, Tensor* grad_norm) {
  RETURN_IF_ERROR(graph->status());
  RETURN_IF_ERROR(CheckOptions(options));
  const GlobalNorm global = AddGlobalNorm(graph, gradients, options.clip);
  *grad_norm = global.norm;
  const Graph::Context outer = graph->context();
  Graph::Context context;
  context.phase = Phase::kUpdate;
  Tensor factor = global.factor;
  if (!factor) {
    context.scope = "clip/one";
    graph->set_context(context);
    factor = Fill(graph, 1, {});
  }
  for (const auto& entry : gradients) {
    context.scope = graph->node(graph->tensor(entry.first).producer).name;
    graph->set_context(context);
    AddUpdate(graph, Tensor(graph, entry.first), entry.second, factor, learning_rate, step,
              options);
  }
  graph->set_context(outer);
  return graph->status();
}

namespace {

absl::Status AddUpdates(Graph* graph, Tensor loss, const OptimizerOptions& options) {
  VariableGradients gradients;
  RETURN_IF_ERROR(AddBackward(graph, loss, &gradients));
  const Tensor learning_rate = graph->Input("learning_rate", DType::kF32, {}, "");
  const Tensor step = graph->Input("step", DType::kI32, {}, "");
  Tensor grad_norm;
  RETURN_IF_ERROR(AddOptimizer(graph, gradients, learning_rate, step, options, &grad_norm));
  graph->Output("grad_norm", grad_norm);
  return graph->status();
}

}  // namespace

absl::Status AddTraining(Graph* graph, Tensor loss, const OptimizerOptions& options) {
  graph->Output("loss", loss);
  return AddUpdates(graph, loss, options);
}

GraphPass Train(const OptimizerOptions& options) {
  return {"train", [options](const Graph& from) -> absl::StatusOr<std::unique_ptr<Graph>> {
            std::unique_ptr<Graph> graph = from.Copy();
            Tensor loss;
            for (const auto& output : graph->outputs()) {
              if (output.first == "loss") loss = Tensor(graph.get(), output.second);
            }
            if (!loss) return absl::InvalidArgumentError("expected an output \"loss\", got none");
            RETURN_IF_ERROR(AddUpdates(graph.get(), loss, options));
            RETURN_IF_ERROR(graph->Finish());
            return graph;
          }};
}

}  // namespace sluice
