#include "framework/graph/verify.h"

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/base/text.h"

namespace sluice {
namespace {

template <typename... Shards>
absl::Status Wrong(const Shards&... shards) {
  return absl::InvalidArgumentError(absl::StrCat(shards...));
}

absl::Status CheckTensorId(const Graph& graph, TensorId id, absl::string_view what) {
  if (id >= 0 && id < graph.num_tensors()) return absl::OkStatus();
  return Wrong(what, ": expected a tensor below %", graph.num_tensors(), ", got %", id);
}

absl::Status CheckAnnotation(const SbpAnnotation& annotation, const Shape& shape) {
  for (const auto& entry : annotation.entries) {
    if (entry.second.is_split() && entry.second.dim >= shape.rank()) {
      return Wrong("annotation ", Quoted(annotation.ToString()), ": expected a dimension below ",
                   shape.rank(), ", got ", ToString(entry.second));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckTypes(const Graph& graph, const Node& node) {
  const std::vector<TensorType> outputs = OutputTypes(graph, node);
  if (node.op == &VariableOp()) return CheckInit(std::get<VariableAttributes>(node.attributes));
  if (node.op->infer == nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<TensorType> inferred,
                   node.op->infer({node.attributes, InputTypes(graph, node), {}}));
  if (inferred != outputs) {
    return Wrong("expected types ", TypesToString(inferred), " by inference, got ",
                 TypesToString(outputs));
  }
  return absl::OkStatus();
}

absl::Status CheckRole(const Graph& graph, const Node& node, TensorId id) {
  const TensorInfo& info = graph.tensor(id);
  const bool variable = node.op == &VariableOp();
  if (variable != IsVariableRole(info.role)) {
    return Wrong("%", id, variable ? " is a variable" : " is no variable", " and has the role ",
                 RoleName(info.role));
  }
  if (info.role != Role::kState && info.role != Role::kGradient) return absl::OkStatus();
  const std::string what = absl::StrCat("%", id, ", a ", RoleName(info.role));
  RETURN_IF_ERROR(CheckTensorId(graph, info.of, what));
  const TensorInfo& parameter = graph.tensor(info.of);
  if (parameter.role != Role::kParameter) {
    return Wrong(what, ": expected it to be of a parameter, got %", info.of);
  }
  if (parameter.type.shape != info.type.shape) {
    return Wrong(what, ": expected the shape of ", graph.node(parameter.producer).name, ", got ",
                 info.type.shape.ToString());
  }
  return absl::OkStatus();
}

absl::Status CheckPorts(const Graph& graph, const Node& node) {
  const OpDef& op = *node.op;
  const bool variadic = !op.inputs.empty() && op.inputs.back().variadic;
  const size_t least = op.inputs.size() - (variadic ? 1 : 0);
  if (variadic ? node.inputs.size() < least : node.inputs.size() != least) {
    return Wrong("expected ", variadic ? "at least " : "", least, " inputs, got ",
                 node.inputs.size());
  }
  if (node.outputs.size() != op.outputs.size()) {
    return Wrong("expected ", op.outputs.size(), " outputs, got ", node.outputs.size());
  }
  if (node.attributes.index() != op.attributes.index()) {
    return Wrong("holds the attributes of another op");
  }
  for (TensorId id : node.inputs) {
    RETURN_IF_ERROR(CheckTensorId(graph, id, "an input"));
    if (graph.tensor(id).producer >= node.id) {
      return Wrong("reads %", id, ", which is made by the later node ",
                   graph.node(graph.tensor(id).producer).name);
    }
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    RETURN_IF_ERROR(CheckTensorId(graph, node.outputs[i], "an output"));
    const TensorInfo& info = graph.tensor(node.outputs[i]);
    if (info.producer != node.id || info.output != static_cast<int32_t>(i)) {
      return Wrong("%", node.outputs[i], " does not know it as its producer");
    }
    RETURN_IF_ERROR(CheckRole(graph, node, node.outputs[i]));
    RETURN_IF_ERROR(CheckAnnotation(info.annotation, info.type.shape));
    RETURN_IF_ERROR(CheckAnnotation(info.storage, info.type.shape));
    RETURN_IF_ERROR(CheckAnnotation(info.state, info.type.shape));
    if (!info.state.empty() && info.role != Role::kParameter) {
      return Wrong("has an annotation on its state, which only parameters have");
    }
    if (!info.storage.empty() && node.op != &VariableOp()) {
      return Wrong("has an annotation on storage, which only variables have");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckPhase(const Graph& graph, const Node& node) {
  for (TensorId id : node.inputs) {
    const Node& producer = graph.node(graph.tensor(id).producer);
    if (producer.phase > node.phase) {
      return Wrong("of the ", PhaseName(node.phase), " phase reads ", producer.name, " of the ",
                   PhaseName(producer.phase), " phase");
    }
  }
  if (node.forward < 0) return absl::OkStatus();
  if (node.phase != Phase::kBackward) {
    return Wrong("of the ", PhaseName(node.phase), " phase has a forward node");
  }
  if (node.forward >= node.id || graph.node(node.forward).phase != Phase::kForward) {
    return Wrong("expected an earlier node of the forward phase as its forward node, got #",
                 node.forward);
  }
  const Node& forward = graph.node(node.forward);
  if (forward.stage != node.stage) {
    return Wrong("expected the stage ", forward.stage, " of ", forward.name, ", got ", node.stage);
  }
  return absl::OkStatus();
}

// `updated_by` has the name of the node that updated a tensor so far.
absl::Status CheckUpdates(const Graph& graph, const Node& node,
                          std::vector<std::string>* updated_by) {
  for (TensorId id : node.inputs) {
    const std::string& earlier = (*updated_by)[id];
    if (earlier.empty()) continue;
    return Wrong("reads ", graph.node(graph.tensor(id).producer).name, " after its update by ",
                 earlier);
  }
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (!InputPort(*node.op, i).updates) continue;
    const TensorId id = node.inputs[i];
    if (!graph.IsVariable(id)) {
      return Wrong("updates ", graph.node(graph.tensor(id).producer).name,
                   ", which is no variable");
    }
    if (node.phase != Phase::kUpdate) {
      return Wrong("updates a variable, but is of the ", PhaseName(node.phase), " phase");
    }
    if (!(*updated_by)[id].empty()) {
      return Wrong("updates ", graph.node(graph.tensor(id).producer).name, " twice");
    }
    (*updated_by)[id] = node.name;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status VerifyGraph(const Graph& graph) {
  absl::flat_hash_set<absl::string_view> names;
  std::vector<std::string> updated_by(graph.num_tensors());
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    const auto check = [&]() -> absl::Status {
      if (node.id != static_cast<NodeId>(i)) return Wrong("has the id ", node.id, " at ", i);
      if (node.name.empty()) return Wrong("has no name");
      if (!names.insert(node.name).second) return Wrong("has the name of an earlier node");
      RETURN_IF_ERROR(CheckPorts(graph, node));
      RETURN_IF_ERROR(CheckTypes(graph, node));
      RETURN_IF_ERROR(CheckPhase(graph, node));
      return CheckUpdates(graph, node, &updated_by);
    };
    const absl::Status status = check();
    if (!status.ok()) return AddContext(status, absl::StrCat("node ", node.name));
  }
  for (const auto& output : graph.outputs()) {
    RETURN_IF_ERROR(CheckTensorId(graph, output.second, absl::StrCat("output ", output.first)));
  }
  return absl::OkStatus();
}

}  // namespace sluice
