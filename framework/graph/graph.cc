#include "framework/graph/graph.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/log.h"
#include "framework/base/status.h"
#include "framework/base/text.h"
#include "framework/graph/verify.h"
#include "framework/tensor/random.h"

namespace sluice {
namespace {

std::string Join(absl::string_view scope, absl::string_view name) {
  return scope.empty() ? std::string(name) : absl::StrCat(scope, "/", name);
}

// Adds entries to the annotation of a tensor; two entries of one axis have to be equal.
absl::Status MergeAnnotations(const SbpAnnotation& more, SbpAnnotation* annotation) {
  for (const auto& entry : more.entries) {
    const Sbp* present = annotation->Find(entry.first);
    if (present == nullptr) {
      annotation->entries.push_back(entry);
    } else if (*present != entry.second) {
      return absl::InvalidArgumentError(absl::StrCat("axis ", entry.first, " is bound to ",
                                                     ToString(*present), " already, got ",
                                                     ToString(entry.second)));
    }
  }
  return absl::OkStatus();
}

// What is kept between steps is a value and not terms of one.
absl::Status NotPartial(const std::pair<std::string, Sbp>& entry) {
  if (!entry.second.is_partial()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("axis ", entry.first, ": expected B or a split, got ", ToString(entry.second)));
}

}  // namespace

absl::string_view PhaseName(Phase phase) {
  switch (phase) {
    case Phase::kForward:
      return "forward";
    case Phase::kBackward:
      return "backward";
    case Phase::kUpdate:
      return "update";
  }
  return "?";
}

absl::string_view RoleName(Role role) {
  switch (role) {
    case Role::kActivation:
      return "activation";
    case Role::kResidual:
      return "residual";
    case Role::kParameter:
      return "parameter";
    case Role::kState:
      return "state";
    case Role::kStatistic:
      return "statistic";
    case Role::kCache:
      return "cache";
    case Role::kGradient:
      return "gradient";
  }
  return "?";
}

bool IsVariableRole(Role role) {
  return role == Role::kParameter || role == Role::kState || role == Role::kStatistic ||
         role == Role::kCache;
}

std::vector<TensorType> InputTypes(const Graph& graph, const Node& node) {
  std::vector<TensorType> types;
  for (TensorId id : node.inputs) types.push_back(graph.tensor(id).type);
  return types;
}

std::vector<TensorType> OutputTypes(const Graph& graph, const Node& node) {
  std::vector<TensorType> types;
  for (TensorId id : node.outputs) types.push_back(graph.tensor(id).type);
  return types;
}

std::string TypesToString(absl::Span<const TensorType> types) {
  return absl::StrJoin(types, ", ", [](std::string* out, const TensorType& type) {
    absl::StrAppend(out, ToString(type));
  });
}

absl::Status CheckInit(const VariableAttributes& attributes) {
  const std::vector<std::string> known = {"zeros", "ones", "constant", "normal", "uniform"};
  for (const std::string& init : known) {
    if (attributes.init == init) return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("init: expected ", absl::StrJoin(known, ", "),
                                                 ", got ", Quoted(attributes.init),
                                                 DidYouMean(attributes.init, known)));
}

absl::StatusOr<SbpAnnotation> ParseAnnotation(absl::string_view annotation, const Shape& shape) {
  ASSIGN_OR_RETURN(SbpAnnotation parsed, SbpAnnotation::Parse(annotation));
  for (const auto& entry : parsed.entries) {
    if (entry.second.is_split() && entry.second.dim >= shape.rank()) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", annotation, "\": expected a dimension below ", shape.rank(),
                       " of a tensor ", shape.ToString(), ", got ", ToString(entry.second)));
    }
  }
  return parsed;
}

const TensorType& Tensor::type() const {
  static const TensorType* const none = new TensorType();
  return graph_ == nullptr ? *none : graph_->tensor(id_).type;
}

Tensor Tensor::With(absl::string_view annotation) const {
  if (graph_ == nullptr) return *this;
  TensorInfo& info = graph_->mutable_tensor(id_);
  absl::StatusOr<SbpAnnotation> parsed = ParseAnnotation(annotation, info.type.shape);
  absl::Status status = parsed.status();
  if (parsed.ok()) status = MergeAnnotations(*parsed, &info.annotation);
  if (status.ok()) return *this;
  graph_->SetError(status, absl::StrCat(graph_->node(info.producer).name, ": SBP annotation"));
  return Tensor();
}

std::unique_ptr<Graph> Graph::Copy() const {
  std::unique_ptr<Graph> copy(new Graph(*this));
  copy->context_ = {};
  return copy;
}

void Graph::SetError(const absl::Status& status, absl::string_view where) {
  if (status_.ok() && !status.ok()) status_ = AddContext(status, where);
}

bool Graph::IsVariable(TensorId id) const {
  return nodes_[tensors_[id].producer].op == &VariableOp();
}

Tensor Graph::FindVariable(absl::string_view name) {
  const auto found = variable_by_name_.find(std::string(name));
  return found == variable_by_name_.end() ? Tensor() : Tensor(this, found->second);
}

void Graph::SetRole(TensorId tensor, Role role, TensorId parameter) {
  SLUICE_CHECK((role == Role::kState || role == Role::kGradient) == (parameter >= 0))
      << RoleName(role) << " of %" << parameter;
  tensors_[tensor].role = role;
  tensors_[tensor].of = parameter;
}

std::vector<std::pair<TensorId, TensorId>> Graph::TensorsOf(Role role) const {
  std::vector<std::pair<TensorId, TensorId>> found;
  for (TensorId id = 0; id < num_tensors(); ++id) {
    if (tensors_[id].role == role) found.emplace_back(id, tensors_[id].of);
  }
  return found;
}

std::string Graph::UniqueName(const std::string& name) {
  const auto [found, fresh] = names_.try_emplace(name, 1);
  if (fresh) return name;
  std::string unique;
  do {
    unique = absl::StrCat(name, "_", ++found->second);
  } while (names_.contains(unique));
  names_[unique] = 1;
  return unique;
}

std::string Graph::NameFor(const OpDef& op) {
  const std::string& scope = context_.scope;
  if (scope.empty() || names_.find(scope) != names_.end()) return UniqueName(Join(scope, op.name));
  return UniqueName(scope);
}

int32_t Graph::StageOf(const OpDef& op, const std::vector<Tensor>& inputs) const {
  if (context_.stage.has_value()) return *context_.stage;
  if (context_.forward >= 0) return nodes_[context_.forward].stage;
  int32_t latest = -1;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const int32_t stage = nodes_[tensors_[inputs[i].id()].producer].stage;
    if (InputPort(op, i).updates) return stage;
    latest = std::max(latest, stage);
  }
  return latest;
}

absl::Status Graph::CheckInputs(const OpDef& op, const Attributes& attributes,
                                const std::vector<Tensor>& inputs) const {
  SLUICE_CHECK_EQ(attributes.index(), op.attributes.index()) << "attributes of " << op.name;
  const bool variadic = !op.inputs.empty() && op.inputs.back().variadic;
  const size_t least = op.inputs.size() - (variadic ? 1 : 0);
  if (variadic ? inputs.size() < least : inputs.size() != least) {
    return absl::InvalidArgumentError(absl::StrCat("expected ", variadic ? "at least " : "", least,
                                                   " inputs, got ", inputs.size()));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string where = absl::StrCat("input ", i, " (", InputPort(op, i).name, ")");
    if (inputs[i].graph() != this) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, ": expected a tensor of this graph, got ",
                       inputs[i].graph() == nullptr ? "an empty one" : "one of another graph"));
    }
    if (InputPort(op, i).updates && !IsVariable(inputs[i].id())) {
      return absl::InvalidArgumentError(absl::StrCat(
          where, ": expected a variable, for it is updated in place, got the output of ",
          nodes_[tensors_[inputs[i].id()].producer].name));
    }
  }
  return absl::OkStatus();
}

namespace {

// Of one tensor, 4 TiB in f32. Its bytes on all devices of the largest mesh, and all arithmetic on
// three such tensors, are then numbers that an int64_t holds.
constexpr int64_t kMostElements = int64_t{1} << 40;

absl::Status CheckSize(const TensorType& type) {
  int64_t elements = 1;
  for (const int64_t extent : type.shape) {
    // An extent of 0 must not hide what the others would come to.
    if (extent >= 0 && extent <= kMostElements / elements) {
      elements *= std::max<int64_t>(1, extent);
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat("expected a tensor of at most ", kMostElements,
                                                   " elements, got ", DTypeName(type.dtype),
                                                   type.shape.ToString()));
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<Tensor> Graph::Append(Node node, const std::vector<Tensor>& inputs,
                                  absl::string_view where) {
  const OpDef& op = *node.op;
  std::vector<Tensor> outputs(op.outputs.size());
  if (absl::Status status = CheckInputs(op, node.attributes, inputs); !status.ok()) {
    SetError(status, where);
    return outputs;
  }
  node.id = static_cast<NodeId>(nodes_.size());
  for (const Tensor& input : inputs) node.inputs.push_back(input.id());
  const std::vector<TensorType> types = InputTypes(*this, node);
  absl::StatusOr<std::vector<TensorType>> inferred = op.infer({node.attributes, types, {}});
  if (!inferred.ok()) {
    SetError(AddContext(inferred.status(), absl::StrCat("inputs ", TypesToString(types))), where);
    return outputs;
  }
  SLUICE_CHECK_EQ(inferred->size(), op.outputs.size()) << "inference of " << op.name;
  for (const TensorType& type : *inferred) {
    if (const absl::Status size = CheckSize(type); !size.ok()) {
      SetError(AddContext(size, op.name), where);
      return outputs;
    }
  }
  for (size_t i = 0; i < inferred->size(); ++i) {
    node.outputs.push_back(num_tensors());
    outputs[i] = Tensor(this, num_tensors());
    TensorInfo info;
    info.type = (*inferred)[i];
    info.producer = node.id;
    info.output = static_cast<int32_t>(i);
    tensors_.push_back(std::move(info));
  }
  nodes_.push_back(std::move(node));
  return outputs;
}

std::vector<Tensor> Graph::Add(const OpDef& op, Attributes attributes, std::vector<Tensor> inputs) {
  if (!status_.ok()) return std::vector<Tensor>(op.outputs.size());
  Node node;
  node.op = &op;
  node.name = NameFor(op);
  if (op.random) {
    int64_t* const key = RandomKeyOf(&attributes);
    if (key != nullptr && *key == 0) *key = RandomKey(node.name);
  }
  node.attributes = std::move(attributes);
  node.phase = context_.phase;
  node.forward = context_.forward;
  node.block = context_.block;
  node.region = context_.region;
  std::vector<Tensor> outputs = Append(std::move(node), inputs, Join(context_.scope, op.name));
  if (status_.ok()) nodes_.back().stage = StageOf(op, inputs);
  return outputs;
}

TensorId Graph::AddSource(const OpDef& op, Attributes attributes, absl::string_view name,
                          const TensorType& type, SbpAnnotation annotation) {
  Node node;
  node.id = static_cast<NodeId>(nodes_.size());
  node.op = &op;
  node.attributes = std::move(attributes);
  node.name = std::string(name);
  node.outputs = {num_tensors()};
  names_[node.name] = 1;
  TensorInfo info;
  info.type = type;
  info.producer = node.id;
  info.annotation = std::move(annotation);
  tensors_.push_back(std::move(info));
  nodes_.push_back(std::move(node));
  return nodes_.back().outputs[0];
}

Tensor Graph::Input(absl::string_view name, DType dtype, const Shape& shape,
                    absl::string_view annotation) {
  if (!status_.ok()) return Tensor();
  const std::string where = absl::StrCat("input ", Quoted(name));
  if (const absl::Status size = CheckSize({dtype, shape}); !size.ok()) {
    SetError(size, where);
    return Tensor();
  }
  absl::StatusOr<SbpAnnotation> parsed = ParseAnnotation(annotation, shape);
  if (!parsed.ok()) {
    SetError(parsed.status(), where);
  } else if (name.empty() || names_.count(std::string(name)) > 0) {
    SetError(absl::InvalidArgumentError("expected a name that nothing else has"), where);
  }
  if (!status_.ok()) return Tensor();
  const TensorId id = AddSource(InputOp(), NoAttributes{}, name, {dtype, shape}, *parsed);
  inputs_.push_back(tensors_[id].producer);
  return Tensor(this, id);
}

Tensor Graph::Variable(absl::string_view name, DType dtype, const Shape& shape,
                       const VariableAttributes& init, const ParamLayout& layout, int32_t stage) {
  if (!status_.ok()) return Tensor();
  const std::string where = absl::StrCat("variable ", Quoted(name));
  const TensorType type{dtype, shape};
  if (const absl::Status size = CheckSize(type); !size.ok()) {
    SetError(size, where);
    return Tensor();
  }
  SbpAnnotation annotation, storage, state;
  const auto parse = [&](absl::string_view what, absl::string_view words, SbpAnnotation* parsed) {
    absl::StatusOr<SbpAnnotation> found = ParseAnnotation(words, shape);
    SetError(found.status(), absl::StrCat(where, ": ", what));
    if (found.ok()) *parsed = *std::move(found);
  };
  parse("how it is read", layout.read, &annotation);
  parse("how it is stored", layout.stored, &storage);
  parse("how its state is stored", layout.state, &state);
  for (const auto& entry : storage.entries) {
    SetError(NotPartial(entry), absl::StrCat(where, ": how it is stored"));
  }
  for (const auto& entry : state.entries) {
    SetError(NotPartial(entry), absl::StrCat(where, ": how its state is stored"));
  }
  if (!status_.ok()) return Tensor();
  Tensor variable = FindVariable(name);
  if (variable) {
    if (variable.type() != type) {
      SetError(absl::InvalidArgumentError(absl::StrCat("is ", ToString(variable.type()),
                                                       " already, got ", ToString(type))),
               where);
      return Tensor();
    }
    TensorInfo& info = tensors_[variable.id()];
    const auto merge = [&](absl::string_view what, const SbpAnnotation& more, SbpAnnotation* had) {
      SetError(MergeAnnotations(more, had), absl::StrCat(where, ": ", what));
    };
    merge("how it is read", annotation, &info.annotation);
    merge("how it is stored", storage, &info.storage);
    merge("how its state is stored", state, &info.state);
    return status_.ok() ? variable : Tensor();
  }
  if (name.empty() || names_.count(std::string(name)) > 0) {
    SetError(absl::InvalidArgumentError("expected a name that nothing else has"), where);
  } else {
    SetError(CheckInit(init), where);
  }
  if (!status_.ok()) return Tensor();
  const TensorId id = AddSource(VariableOp(), init, name, type, std::move(annotation));
  tensors_[id].storage = std::move(storage);
  tensors_[id].state = std::move(state);
  tensors_[id].role = Role::kParameter;
  nodes_.back().stage = stage;
  variables_.push_back(nodes_.back().id);
  variable_by_name_[std::string(name)] = id;
  return Tensor(this, id);
}

void Graph::Output(absl::string_view name, Tensor tensor) {
  if (!status_.ok()) return;
  const std::string where = absl::StrCat("output ", Quoted(name));
  if (tensor.graph() != this) {
    SetError(absl::InvalidArgumentError("expected a tensor of this graph"), where);
    return;
  }
  for (const auto& output : outputs_) {
    if (output.first == name) {
      SetError(absl::InvalidArgumentError("expected a name that no other output has"), where);
      return;
    }
  }
  outputs_.emplace_back(std::string(name), tensor.id());
}

void Graph::SettleStages() {
  // Sources, and forward nodes on them alone, take the stage of their first reader by node that has
  // one. `last` also settles what no reader speaks for.
  const auto settle_by_readers = [&](bool last) {
    std::vector<int32_t> first_reader(nodes_.size(), -1);
    std::vector<bool> read(nodes_.size(), false);
    for (size_t id = nodes_.size(); id-- > 0;) {
      Node& node = nodes_[id];
      if (node.stage < 0 && (last || node.phase == Phase::kForward)) {
        node.stage = first_reader[id];
        const bool end = !node.inputs.empty() && !read[id];
        if (node.stage < 0 && (last || end)) node.stage = 0;
      }
      for (TensorId input : node.inputs) {
        const NodeId producer = tensors_[input].producer;
        read[producer] = true;
        if (node.stage >= 0) first_reader[producer] = node.stage;
      }
    }
  };
  settle_by_readers(/*last=*/false);
  for (Node& node : nodes_) {
    if (node.stage >= 0 || node.phase == Phase::kForward) continue;
    if (node.forward >= 0) {
      node.stage = nodes_[node.forward].stage;
      continue;
    }
    // A gradient is added up where its parameter is.
    for (TensorId output : node.outputs) {
      if (tensors_[output].role != Role::kGradient) continue;
      node.stage = nodes_[tensors_[tensors_[output].of].producer].stage;
    }
    if (node.stage >= 0) continue;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const int32_t stage = nodes_[tensors_[node.inputs[i]].producer].stage;
      node.stage = std::max(node.stage, stage);
      if (!InputPort(*node.op, i).updates) continue;
      // A variable that only its update reads goes where what it is updated with is made. What an
      // update gives a value to settles with that.
      if (stage < 0 && node.outputs.empty()) continue;
      node.stage = stage;
      break;
    }
  }
  settle_by_readers(/*last=*/true);
}

absl::Status Graph::Finish() {
  if (!status_.ok()) return status_;
  SettleStages();
  SetError(VerifyGraph(*this), "graph");
  return status_;
}

void Graph::RemoveUnused(NodeId from, std::vector<TensorId>* keep) {
  std::vector<bool> used(tensors_.size(), false);
  for (TensorId id : *keep) used[id] = true;
  const NodeId count = static_cast<NodeId>(nodes_.size());
  TensorId first = num_tensors();
  for (NodeId id = count - 1; id >= from; --id) {
    Node& node = nodes_[id];
    SLUICE_CHECK(node.op->infer != nullptr) << node.name << " is an input or a variable";
    bool needed = node.outputs.empty();
    for (TensorId output : node.outputs) needed = needed || used[output];
    for (TensorId input : node.inputs) used[input] = used[input] || needed;
    if (!node.outputs.empty()) first = node.outputs[0];
    if (!needed) node.op = nullptr;
  }
  std::vector<TensorId> renumbered(tensors_.size());
  for (TensorId id = 0; id < first; ++id) renumbered[id] = id;
  TensorId next_tensor = first;
  NodeId next_node = from;
  for (NodeId id = from; id < count; ++id) {
    if (nodes_[id].op == nullptr) {
      names_.erase(nodes_[id].name);
      continue;
    }
    Node node = std::move(nodes_[id]);
    node.id = next_node;
    for (TensorId& input : node.inputs) input = renumbered[input];
    for (TensorId& output : node.outputs) {
      renumbered[output] = next_tensor;
      TensorInfo info = std::move(tensors_[output]);
      info.producer = next_node;
      tensors_[next_tensor] = std::move(info);
      output = next_tensor++;
    }
    nodes_[next_node++] = std::move(node);
  }
  nodes_.resize(next_node);
  tensors_.resize(next_tensor);
  for (TensorId& id : *keep) id = renumbered[id];
}

Scope Scope::operator/(absl::string_view name) const {
  Scope scope = *this;
  scope.path_ = Join(path_, name);
  return scope;
}

Scope Scope::Stage(int32_t stage) const {
  Scope scope = *this;
  scope.stage_ = stage;
  return scope;
}

InScope::InScope(const Scope& scope) : graph_(scope.graph()), outer_(graph_->context()) {
  Graph::Context inner = outer_;
  inner.scope = scope.path();
  inner.block = scope.block();
  inner.region = scope.region();
  graph_->set_context(inner);
}

InScope::~InScope() { graph_->set_context(outer_); }

Scope Scope::Block(absl::string_view name) const {
  Scope scope = *this / name;
  scope.block_ = graph_->next_block_++;
  return scope;
}

Scope Scope::Recompute() const {
  Scope scope = *this;
  scope.region_ = graph_->next_region_++;
  return scope;
}

Tensor Scope::Param(absl::string_view name, const Shape& shape, const ParamLayout& layout,
                    const VariableAttributes& init) const {
  const size_t before = graph_->variables().size();
  const Tensor variable =
      graph_->Variable(Join(path_, name), DType::kF32, shape, init, layout, stage_);
  if (graph_->variables().size() > before) {
    graph_->mutable_node(graph_->variables().back()).block = block_;
  }
  return variable;
}

}  // namespace sluice
