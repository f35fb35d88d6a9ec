#include "framework/passes/backward.h"

#include <algorithm>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "framework/base/log.h"
#include "framework/base/status.h"
#include "framework/ops/op_defs.h"
#include "framework/ops/ops.h"

namespace sluice {
namespace {

// One list of rows out of two: flat, as their ids may have any shapes, or one of each group.
Gradient JoinSparse(const Gradient& a, const Gradient& b) {
  if (a.grouped) {
    return {Gradient::kSparse,
            {Concat({a.tensors[0], b.tensors[0]}, 1), Concat({a.tensors[1], b.tensors[1]}, 1)},
            /*grouped=*/true};
  }
  const auto flat = [](const Gradient& rows) {
    const int64_t count = rows.tensors[0].shape().NumElements();
    Shape values = {count};
    if (rows.tensors[1].shape().rank() > 0) {
      values.Append(rows.tensors[1].shape()[rows.tensors[1].shape().rank() - 1]);
    }
    return Gradient{Gradient::kSparse,
                    {Reshape(rows.tensors[0], {count}), Reshape(rows.tensors[1], values)}};
  };
  const Gradient left = flat(a), right = flat(b);
  return {Gradient::kSparse,
          {Concat({left.tensors[0], right.tensors[0]}, 0),
           Concat({left.tensors[1], right.tensors[1]}, 0)}};
}

class Backward {
 public:
  Backward(Graph* graph, Tensor loss)
      : graph_(graph),
        loss_(loss),
        last_(graph->tensor(loss.id()).producer),
        first_new_(static_cast<NodeId>(graph->nodes().size())) {
    leads_.resize(graph->num_tensors());
    parts_.resize(graph->num_tensors());
  }

  absl::Status Run(VariableGradients* gradients) {
    FindWhatLeadsToVariables();
    if (!leads_[loss_.id()]) {
      return absl::InvalidArgumentError(
          absl::StrCat("backward: the loss ", graph_->node(last_).name, " depends on no variable"));
    }
    const Graph::Context outer = graph_->context();
    EnterNode(last_);
    parts_[loss_.id()] = {{Gradient::kDense, {Fill(graph_, 1, loss_.shape(), loss_.dtype())}}};
    // Later nodes than the loss cannot lead to it; every reader of a tensor is later than it.
    for (NodeId id = last_; id >= 0; --id) RETURN_IF_ERROR(Visit(id));
    Collect(gradients);
    graph_->set_context(outer);
    return graph_->status();
  }

 private:
  void FindWhatLeadsToVariables() {
    for (NodeId id = 0; id <= last_; ++id) {
      const Node& node = graph_->node(id);
      bool leads = node.op == &VariableOp();
      for (TensorId input : node.inputs) {
        leads = leads || (leads_[input] && node.op->gradient != nullptr);
      }
      for (TensorId output : node.outputs) {
        leads_[output] = leads && IsFloat(graph_->tensor(output).type.dtype);
      }
    }
  }

  // What is added next belongs to this forward node.
  void EnterNode(NodeId id) {
    const Node& node = graph_->node(id);
    Graph::Context context;
    context.phase = Phase::kBackward;
    context.scope = absl::StrCat(node.name, "/backward");
    if (node.op == &VariableOp()) {
      context.stage = node.stage;
    } else {
      context.forward = id;
    }
    graph_->set_context(context);
  }

  // Terms of f32 and of a smaller type (a sum over samples beside one that is none) make f32.
  static Tensor AddUp(std::vector<Tensor> terms) {
    const bool f32 =
        std::ranges::any_of(terms, [](const Tensor& term) { return term.dtype() == DType::kF32; });
    for (Tensor& term : terms) {
      if (f32) term = Cast(term, DType::kF32);
    }
    if (terms.size() == 1) return terms[0];
    return terms.size() == 2 ? Add(terms[0], terms[1]) : AddN(terms);
  }

  // The sum of all that readers gave for a tensor, in the order in which they gave it.
  Gradient Sum(TensorId id, bool is_variable) {
    const Graph::Context here = graph_->context();
    Graph::Context sums = here;
    sums.scope = absl::StrCat(here.scope, "/sum");
    graph_->set_context(sums);
    const Gradient sum = AddUpParts(id, is_variable);
    graph_->set_context(here);
    return sum;
  }

  Gradient AddUpParts(TensorId id, bool is_variable) {
    std::vector<Tensor> dense;
    Gradient rows;
    for (const Gradient& part : parts_[id]) {
      if (part.kind == Gradient::kDense) {
        dense.push_back(part.tensors[0]);
      } else {
        rows = rows.kind == Gradient::kNone ? part : JoinSparse(rows, part);
      }
    }
    parts_[id].clear();
    const TensorType& type = graph_->tensor(id).type;
    if (dense.empty()) {
      if (is_variable || rows.kind == Gradient::kNone) return rows;
      dense.push_back(Fill(graph_, 0, type.shape, type.dtype));
    }
    Tensor sum = AddUp(dense);
    if (rows.kind == Gradient::kSparse) {
      rows.tensors[1] = Cast(rows.tensors[1], sum.dtype());
      sum = AddSparse(sum, rows);
    }
    return {Gradient::kDense, {sum}};
  }

  absl::Status Visit(NodeId id) {
    const Node& node = graph_->node(id);
    bool any = false;
    for (TensorId output : node.outputs) any = any || !parts_[output].empty();
    if (!any) return absl::OkStatus();
    EnterNode(id);
    std::vector<Tensor> dy;
    for (TensorId output : node.outputs) {
      const Gradient sum = Sum(output, node.op == &VariableOp());
      if (node.op == &VariableOp()) {
        variables_[output] = Distinct(sum);
      } else {
        dy.push_back(sum.kind == Gradient::kNone ? Tensor() : sum.tensors[0]);
        // A gradient may be wider than its tensor, as sums over samples are f32. A cast passes it
        // on as it is, for what it widens again, such as a parameter; other ops expect their type.
        if (dy.back() && node.op != &CastOp()) {
          dy.back() = Cast(dy.back(), graph_->tensor(output).type.dtype);
        }
      }
    }
    if (node.op->gradient == nullptr) return graph_->status();
    std::vector<Tensor> inputs, outputs;
    for (TensorId input : node.inputs) inputs.emplace_back(graph_, input);
    for (TensorId output : node.outputs) outputs.emplace_back(graph_, output);
    std::vector<Gradient> dx(inputs.size());
    node.op->gradient(node, inputs, outputs, dy, &dx);
    if (!graph_->status().ok()) return graph_->status();
    SLUICE_CHECK_EQ(dx.size(), inputs.size()) << "gradient of " << node.op->name;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (dx[i].kind == Gradient::kNone || !leads_[node.inputs[i]]) continue;
      SLUICE_CHECK(dx[i].kind == Gradient::kSparse || dx[i].tensors[0].shape() == inputs[i].shape())
          << "gradient of " << node.name << " for input " << i;
      parts_[node.inputs[i]].push_back(dx[i]);
    }
    return absl::OkStatus();
  }

  // A tensor may be the gradient of one variable only: each is boxed to its own layout.
  Gradient Distinct(const Gradient& gradient) {
    if (gradient.kind != Gradient::kDense || !graph_->status().ok()) return gradient;
    if (dense_.insert(gradient.tensors[0].id()).second) return gradient;
    return {Gradient::kDense, {Scale(gradient.tensors[0], 1)}};
  }

  void Collect(VariableGradients* gradients) {
    gradients->clear();
    std::vector<TensorId> keep;
    for (const auto& entry : variables_) {
      for (const Tensor& tensor : entry.second.tensors) keep.push_back(tensor.id());
    }
    graph_->RemoveUnused(first_new_, &keep);
    size_t next = 0;
    for (auto& entry : variables_) {
      for (Tensor& tensor : entry.second.tensors) tensor = Tensor(graph_, keep[next++]);
    }
    for (NodeId variable : graph_->variables()) {
      const TensorId id = graph_->node(variable).outputs[0];
      const auto found = variables_.find(id);
      if (found == variables_.end() || found->second.kind == Gradient::kNone) continue;
      gradients->emplace_back(id, found->second);
      if (found->second.kind != Gradient::kDense) continue;
      graph_->SetRole(found->second.tensors[0].id(), Role::kGradient, id);
    }
  }

  Graph* const graph_;
  const Tensor loss_;
  const NodeId last_, first_new_;
  std::vector<bool> leads_;                   // by tensor: a variable's gradient passes through it
  std::vector<std::vector<Gradient>> parts_;  // by tensor: what its readers gave so far
  std::map<TensorId, Gradient> variables_;
  std::set<TensorId> dense_;
};

}  // namespace

absl::Status AddBackward(Graph* graph, Tensor loss, VariableGradients* gradients) {
  RETURN_IF_ERROR(graph->status());
  if (loss.graph() != graph || !IsFloat(loss.dtype())) {
    return absl::InvalidArgumentError("backward: expected a loss of this graph, of a float type");
  }
  graph->SettleStages();
  return Backward(graph, loss).Run(gradients);
}

}  // namespace sluice
