#include "framework/passes/optimizer.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/ops/op_defs.h"
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
  if (options.nesterov && options.momentum == 0) {
    return absl::InvalidArgumentError("optimizer: nesterov: expected a momentum above 0, got 0");
  }
  RETURN_IF_ERROR(CheckRange("dampening", options.dampening, 0, 1));
  if (options.dampening > 0 && (options.momentum == 0 || options.nesterov)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "optimizer: dampening: expected a momentum above 0 that is not Nesterov's, got ",
        options.momentum, options.nesterov ? ", Nesterov's" : ""));
  }
  RETURN_IF_ERROR(CheckRange("trust_coefficient", options.trust_coefficient, 0, HUGE_VAL));
  RETURN_IF_ERROR(CheckRange("beta1", options.beta1, 0, 1));
  RETURN_IF_ERROR(CheckRange("beta2", options.beta2, 0, 1));
  RETURN_IF_ERROR(CheckRange("epsilon", options.epsilon, 0, 1));
  RETURN_IF_ERROR(CheckRange("weight_decay", options.weight_decay, 0, HUGE_VAL));
  RETURN_IF_ERROR(CheckRange("l1", options.l1, 0, HUGE_VAL));
  RETURN_IF_ERROR(CheckRange("l2", options.l2, 0, HUGE_VAL));
  RETURN_IF_ERROR(CheckRange("beta", options.beta, 0, HUGE_VAL));
  for (const OptimizerOptions::Group& group : options.groups) {
    RETURN_IF_ERROR(CheckRange(absl::StrCat("rate of ", group.prefix), group.rate, 0, HUGE_VAL));
  }
  return CheckRange("clip", options.clip, 0, HUGE_VAL);
}

// A variable of zeros that lies as `variable` does, but for what that says of its state.
Tensor State(Graph* graph, Tensor variable, absl::string_view suffix) {
  const Node& node = graph->node(graph->tensor(variable.id()).producer);
  const ParamLayout layout = {.stored = graph->tensor(variable.id()).state.ToString()};
  const Tensor state = graph->Variable(absl::StrCat(node.name, suffix), variable.dtype(),
                                       variable.shape(), VariableAttributes{}, layout, node.stage);
  if (state) graph->SetRole(state.id(), Role::kState, variable.id());
  return state;
}

// Whether the state of a parameter lies otherwise than the parameter. Where nothing is said of how
// it is stored on an axis, its readers decide when the program is compiled.
bool StateLiesApart(const TensorInfo& parameter) {
  return std::any_of(parameter.state.entries.begin(), parameter.state.entries.end(),
                     [&](const auto& entry) {
                       const Sbp* stored = parameter.storage.Find(entry.first);
                       if (stored == nullptr) stored = parameter.annotation.Find(entry.first);
                       return stored == nullptr || *stored != entry.second;
                     });
}

// What all updates of a program read.
struct UpdateInputs {
  Tensor factor, learning_rate, step;
};

// The ratio is of the variable's whole length, however it is split.
Tensor AddLars(Graph* graph, Tensor variable, const Gradient& gradient, Tensor sum_squares,
               const UpdateInputs& inputs, const OptimizerOptions& options, bool apart) {
  const bool adapts = variable.shape().rank() >= 2;
  const LarsAttributes attributes = {.momentum = options.momentum,
                                     .weight_decay = adapts ? options.weight_decay : 0,
                                     .coefficient = options.trust_coefficient};
  const Tensor ratio =
      adapts ? TrustRatio(SumSquares(variable), sum_squares, inputs.factor, attributes)
             : Fill(graph, 1, {});
  const Tensor momentum = State(graph, variable, ".momentum");
  if (apart) {
    return LarsValue(variable, momentum, gradient, inputs.factor, inputs.learning_rate, ratio,
                     attributes);
  }
  LarsUpdate(variable, momentum, gradient, inputs.factor, inputs.learning_rate, ratio, attributes);
  return Tensor();
}

// The direction may lie as the state does: its length is of the whole, and the update reads it as
// the variable lies.
Tensor AddLamb(Graph* graph, Tensor variable, const Gradient& gradient, const UpdateInputs& inputs,
               const AdamWAttributes& attributes) {
  const Tensor m = State(graph, variable, ".m"), v = State(graph, variable, ".v");
  const Tensor direction =
      AdamDirection(variable, m, v, gradient.tensors[0], inputs.factor, inputs.step, attributes);
  const LarsAttributes whole = {.coefficient = 1, .epsilon = 0};
  const Tensor ratio =
      TrustRatio(SumSquares(variable), SumSquares(direction), Fill(graph, 1, {}), whole);
  SgdUpdate(variable, Tensor(), {Gradient::kDense, {direction}}, ratio, inputs.learning_rate,
            inputs.step, SgdAttributes());
  return Tensor();
}

Tensor AddAdagrad(Graph* graph, Tensor variable, const Gradient& gradient,
                  const UpdateInputs& inputs, const AdagradAttributes& attributes, bool apart) {
  const Tensor sum = State(graph, variable, ".sum");
  if (apart) {
    return AdagradValue(variable, sum, gradient, inputs.factor, inputs.learning_rate, attributes);
  }
  AdagradUpdate(variable, sum, gradient, inputs.factor, inputs.learning_rate, attributes);
  return Tensor();
}

Tensor AddFtrl(Graph* graph, Tensor variable, const Gradient& gradient, const UpdateInputs& inputs,
               const FtrlAttributes& attributes, bool apart) {
  const Tensor z = State(graph, variable, ".z"), n = State(graph, variable, ".n");
  if (apart) {
    return FtrlValue(variable, z, n, gradient, inputs.factor, inputs.learning_rate, attributes);
  }
  FtrlUpdate(variable, z, n, gradient, inputs.factor, inputs.learning_rate, attributes);
  return Tensor();
}

// What becomes of the variable, where that is still to be put into it; empty where it is done.
Tensor AddUpdate(Graph* graph, Tensor variable, const Gradient& gradient, Tensor sum_squares,
                 const UpdateInputs& inputs, OptimizerOptions::Kind kind,
                 const OptimizerOptions& options) {
  const auto& [factor, learning_rate, step] = inputs;
  const double decay = variable.shape().rank() >= 2 ? options.weight_decay : 0;
  const bool apart = StateLiesApart(graph->tensor(variable.id()));
  if (kind == OptimizerOptions::kAdamW || kind == OptimizerOptions::kLamb) {
    const AdamWAttributes attributes = {options.beta1, options.beta2, options.epsilon, decay,
                                        options.bias_correction};
    const bool adapts = kind == OptimizerOptions::kLamb && variable.shape().rank() >= 2;
    if (adapts) return AddLamb(graph, variable, gradient, inputs, attributes);
    const Tensor m = State(graph, variable, ".m"), v = State(graph, variable, ".v");
    if (apart) return AdamWValue(variable, m, v, gradient, factor, learning_rate, step, attributes);
    AdamWUpdate(variable, m, v, gradient, factor, learning_rate, step, attributes);
    return Tensor();
  }
  if (kind == OptimizerOptions::kAdagrad) {
    return AddAdagrad(graph, variable, gradient, inputs, {options.epsilon, decay}, apart);
  }
  if (kind == OptimizerOptions::kFtrl) {
    return AddFtrl(graph, variable, gradient, inputs, {options.l1, options.l2, options.beta},
                   apart);
  }
  if (kind == OptimizerOptions::kLars) {
    return AddLars(graph, variable, gradient, sum_squares, inputs, options, apart);
  }
  const SgdAttributes attributes = {options.momentum, decay, options.nesterov, options.dampening};
  if (options.momentum == 0) {
    SgdUpdate(variable, Tensor(), gradient, factor, learning_rate, step, attributes);
    return Tensor();
  }
  const Tensor momentum = State(graph, variable, ".momentum");
  if (apart) return SgdValue(variable, momentum, gradient, factor, learning_rate, step, attributes);
  SgdUpdate(variable, momentum, gradient, factor, learning_rate, step, attributes);
  return Tensor();
}

// The updates in the order of `gradients`. A new value that is still to be put into its variable is
// put there after the next update, so that no device stands still while the value is gathered.
class Updates {
 public:
  explicit Updates(Graph* graph) : graph_(graph) {}
  // Between Enter and Finish of one variable the caller adds its update.
  void Enter(TensorId variable) {
    Graph::Context context;
    context.phase = Phase::kUpdate;
    context.scope = graph_->node(graph_->tensor(variable).producer).name;
    graph_->set_context(context);
  }
  void Finish(TensorId variable, const Gradient* gradient, Tensor value) {
    AssignLast();
    if (value) last_ = {variable, gradient, value};
  }
  void AssignLast() {
    if (!last_.value) return;
    Enter(last_.variable);
    Assign(Tensor(graph_, last_.variable), *last_.gradient, last_.value);
    last_ = {};
  }

 private:
  struct Unassigned {
    TensorId variable = -1;
    const Gradient* gradient = nullptr;
    Tensor value;
  };
  Graph* const graph_;
  Unassigned last_;
};

}  // namespace

namespace {

// Of a variable: its group, or all that fit none.
OptimizerOptions::Group GroupOf(const std::string& variable, const OptimizerOptions& options) {
  for (const OptimizerOptions::Group& group : options.groups) {
    if (absl::StartsWith(variable, group.prefix)) return group;
  }
  return {.prefix = "", .kind = options.kind};
}

// Of each rate that groups have, what their updates read.
class LearningRates {
 public:
  LearningRates(Graph* graph, Tensor learning_rate) : graph_(graph), made_{{1.0, learning_rate}} {}
  Tensor Of(double rate) {
    Tensor& of_rate = made_[rate];
    if (!of_rate) {
      Graph::Context context;
      context.phase = Phase::kUpdate;
      context.scope = "learning_rate";
      graph_->set_context(context);
      of_rate = Scale(made_.at(1.0), rate);
    }
    return of_rate;
  }

 private:
  Graph* const graph_;
  std::map<double, Tensor> made_;
};

// LARS and LAMB move every row of a table, those without a gradient too, by their averages and
// decay.
VariableGradients AllDense(Graph* graph, const VariableGradients& gradients,
                           const OptimizerOptions& options) {
  VariableGradients dense = gradients;
  for (auto& [id, gradient] : dense) {
    const std::string& name = graph->node(graph->tensor(id).producer).name;
    if (gradient.kind == Gradient::kDense) continue;
    if (!HasTrustRatio(GroupOf(name, options).kind)) continue;
    Graph::Context context;
    context.phase = Phase::kUpdate;
    context.scope = name;
    graph->set_context(context);
    const TensorType type = graph->tensor(id).type;
    gradient = {Gradient::kDense, {AddSparse(Fill(graph, 0, type.shape, type.dtype), gradient)}};
  }
  return dense;
}

// Norms and updates read the ids of rows in order (ops/update.h): sorted once a step for all of
// them, and for the tables of a stage that are looked into by the same ids.
void SortIds(Graph* graph, VariableGradients* gradients) {
  std::map<std::pair<TensorId, int32_t>, Tensor> made;
  for (auto& [id, gradient] : *gradients) {
    if (gradient.kind != Gradient::kSparse) continue;
    const Node& variable = graph->node(graph->tensor(id).producer);
    Tensor& ids = gradient.tensors[0];
    Tensor& sorted = made[{ids.id(), variable.stage}];
    if (!sorted) {
      Graph::Context context;
      context.phase = Phase::kUpdate;
      context.scope = variable.name;
      context.stage = variable.stage;
      graph->set_context(context);
      const bool flat = gradient.grouped || ids.shape().rank() == 1;
      sorted = ids;
      if (!flat) sorted = Reshape(ids, {ids.shape().NumElements()});
      const std::vector<Tensor> outputs = graph->Add(SortIdsOp(), NoAttributes(), {sorted});
      if (!graph->status().ok()) return;
      sorted = outputs[0];
    }
    ids = sorted;
  }
}

}  // namespace

absl::Status AddOptimizer(Graph* graph, const VariableGradients& of_variables, Tensor learning_rate,
                          Tensor step, const OptimizerOptions& options, Tensor* grad_norm) {
  RETURN_IF_ERROR(graph->status());
  RETURN_IF_ERROR(CheckOptions(options));
  const Graph::Context before = graph->context();
  VariableGradients gradients = AllDense(graph, of_variables, options);
  SortIds(graph, &gradients);
  graph->set_context(before);
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
  LearningRates rates(graph, learning_rate);
  Updates updates(graph);
  for (size_t i = 0; i < gradients.size(); ++i) {
    const auto& [variable, gradient] = gradients[i];
    const OptimizerOptions::Group group =
        GroupOf(graph->node(graph->tensor(variable).producer).name, options);
    const UpdateInputs inputs = {factor, rates.Of(group.rate), step};
    updates.Enter(variable);
    const Tensor value = AddUpdate(graph, Tensor(graph, variable), gradient, global.squares[i],
                                   inputs, group.kind, options);
    updates.Finish(variable, &gradient, value);
  }
  updates.AssignLast();
  graph->set_context(outer);
  return graph->status();
}

namespace {

// Where a gradient is to be reduced to, axis by axis: where the state of its parameter lies.
std::string LayoutOfState(const TensorInfo& parameter, const Mesh& mesh) {
  std::string layout;
  for (const MeshAxis& axis : mesh.axes()) {
    if (axis.kind != AxisKind::kSpace) continue;
    const Sbp* lies = parameter.state.Find(axis.name);
    if (lies == nullptr) lies = parameter.storage.Find(axis.name);
    if (lies == nullptr) lies = parameter.annotation.Find(axis.name);
    absl::StrAppend(&layout, layout.empty() ? "" : " ", axis.name, ":",
                    lies == nullptr ? "B" : ToString(*lies));
  }
  return layout;
}

// Partial values are cast, which commutes with sums, and the cast back reads whole ones. On a mesh
// of one device values are rounded once as well, so that what a run computes does not depend on
// whether anything is sent. Rows of a table stay as they are: they are gathered, not added up.
void ReduceIn(DType dtype, const Mesh& mesh, Graph* graph, VariableGradients* gradients) {
  const Graph::Context outer = graph->context();
  for (auto& [variable, gradient] : *gradients) {
    Tensor& values = gradient.tensors[0];
    if (gradient.kind != Gradient::kDense || values.dtype() != DType::kF32) continue;
    const TensorInfo& parameter = graph->tensor(variable);
    const std::string layout = LayoutOfState(parameter, mesh);
    Graph::Context context;
    context.phase = Phase::kBackward;
    context.scope = absl::StrCat(graph->node(parameter.producer).name, "/reduced");
    context.stage = graph->node(parameter.producer).stage;
    graph->set_context(context);
    graph->SetRole(values.id(), Role::kActivation, -1);
    values = Cast(Cast(values, dtype).With(layout), DType::kF32);
    if (values) graph->SetRole(values.id(), Role::kGradient, variable);
  }
  graph->set_context(outer);
}

absl::Status AddUpdates(Graph* graph, Tensor loss, const OptimizerOptions& options) {
  RETURN_IF_ERROR(SplitParameters(options.zero, graph));
  VariableGradients gradients;
  RETURN_IF_ERROR(AddBackward(graph, loss, &gradients));
  if (options.reduce != DType::kF32) {
    ReduceIn(options.reduce, options.zero.mesh, graph, &gradients);
  }
  SplitGradients(options.zero, gradients, graph);
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
