#include "framework/graph/rewriter.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/log.h"
#include "framework/base/status.h"
#include "framework/graph/verify.h"

namespace sluice {

GraphRewriter::GraphRewriter(const Graph& from, Graph* to)
    : from_(from), to_(to), tensors_(from.num_tensors(), -1), nodes_(from.nodes().size(), -1) {}

// An empty tensor for what is gone: Graph::Add then refuses its reader by name.
Tensor GraphRewriter::Map(TensorId old) const {
  return tensors_[old] < 0 ? Tensor() : Tensor(to_, tensors_[old]);
}

std::vector<Tensor> GraphRewriter::MapAll(const std::vector<TensorId>& old) const {
  std::vector<Tensor> made;
  for (TensorId id : old) made.push_back(Map(id));
  return made;
}

void GraphRewriter::CarryAnnotations(TensorId old, TensorId made) {
  to_->mutable_tensor(made).annotation = from_.tensor(old).annotation;
  to_->mutable_tensor(made).storage = from_.tensor(old).storage;
  to_->mutable_tensor(made).state = from_.tensor(old).state;
}

void GraphRewriter::Replace(TensorId old, Tensor made) {
  if (!made) return;
  const TensorId before = tensors_[old];  // a copy that no longer stands for it has no role
  if (before >= 0 && !to_->IsVariable(before)) to_->SetRole(before, Role::kActivation, -1);
  tensors_[old] = made.id();
  CarryAnnotations(old, made.id());
  const TensorInfo& info = from_.tensor(old);
  to_->SetRole(made.id(), info.role, info.of < 0 ? -1 : tensors_[info.of]);
}

// A node that was replaced rather than copied has no single heir; what belonged to its backward
// then stands on its own.
NodeId GraphRewriter::MapForward(const Node& node) const {
  return node.forward < 0 ? -1 : nodes_[node.forward];
}

Tensor GraphRewriter::AddSource(const Node& node) {
  const TensorInfo& info = from_.tensor(node.outputs[0]);
  const Tensor source(to_, to_->AddSource(*node.op, node.attributes, node.name, info.type, {}));
  const NodeId id = to_->nodes_.back().id;
  if (node.op == &VariableOp()) {
    to_->variables_.push_back(id);
    to_->variable_by_name_[node.name] = source.id();
  } else {
    to_->inputs_.push_back(id);
  }
  return source;
}

std::vector<Tensor> GraphRewriter::Add(const Node& node, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> outputs;
  if (!to_->status().ok()) return std::vector<Tensor>(node.outputs.size());
  if (node.op == &InputOp() || node.op == &VariableOp()) {
    outputs = {AddSource(node)};
  } else {
    Node copy;
    copy.op = node.op;
    copy.attributes = node.attributes;
    copy.name = to_->UniqueName(node.name);
    outputs = to_->Append(std::move(copy), inputs, node.name);
  }
  if (!to_->status().ok()) return outputs;
  Node& made = to_->nodes_.back();
  made.stage = node.stage;
  made.block = node.block;
  made.region = node.region;
  made.phase = node.phase;
  made.forward = MapForward(node);
  to_->next_block_ = std::max(to_->next_block_, node.block + 1);
  to_->next_region_ = std::max(to_->next_region_, node.region + 1);
  for (size_t i = 0; i < outputs.size(); ++i) CarryAnnotations(node.outputs[i], outputs[i].id());
  return outputs;
}

void GraphRewriter::Copy(const Node& node, const std::vector<Tensor>& inputs) {
  const std::vector<Tensor> outputs = Add(node, inputs);
  if (!to_->status().ok()) return;
  nodes_[node.id] = to_->nodes_.back().id;
  for (size_t i = 0; i < outputs.size(); ++i) Replace(node.outputs[i], outputs[i]);
}

void GraphRewriter::Enter(const Node& node, absl::string_view name) {
  Graph::Context context;
  context.phase = node.phase;
  context.forward = MapForward(node);
  if (node.stage >= 0) context.stage = node.stage;
  context.block = node.block;
  context.region = node.region;
  context.scope = absl::StrCat(node.name, "/", name);
  to_->set_context(context);
}

absl::StatusOr<std::unique_ptr<Graph>> RewriteGraph(
    const Graph& from, absl::FunctionRef<void(const Node&, GraphRewriter*)> visit) {
  RETURN_IF_ERROR(from.status());
  auto to = std::make_unique<Graph>();
  GraphRewriter rewriter(from, to.get());
  for (const Node& node : from.nodes()) {
    visit(node, &rewriter);
    to->set_context({});
    RETURN_IF_ERROR(to->status());
  }
  for (const auto& output : from.outputs()) to->Output(output.first, rewriter.Map(output.second));
  RETURN_IF_ERROR(to->status());
  RETURN_IF_ERROR(VerifyGraph(*to));
  return to;
}

}  // namespace sluice
