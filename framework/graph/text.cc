#include "framework/graph/text.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/status.h"
#include "framework/base/text.h"
#include "framework/graph/verify.h"

namespace sluice {
namespace {

std::string TensorNames(const std::vector<TensorId>& ids) {
  return absl::StrJoin(ids, ", ",
                       [](std::string* out, TensorId id) { absl::StrAppend(out, "%", id); });
}

std::string PrintNode(const Graph& graph, const Node& node) {
  std::string line;
  if (!node.outputs.empty()) line = absl::StrCat(TensorNames(node.outputs), " = ");
  absl::StrAppend(&line, node.op->name, "(", TensorNames(node.inputs), ")");
  const std::string attributes = PrintAttributes(node.attributes);
  if (!attributes.empty()) absl::StrAppend(&line, " {", attributes, "}");
  absl::StrAppend(&line, " name=", Quoted(node.name));
  if (node.stage >= 0) absl::StrAppend(&line, " stage=", node.stage);
  if (node.block >= 0) absl::StrAppend(&line, " block=", node.block);
  if (node.region >= 0) absl::StrAppend(&line, " region=", node.region);
  if (node.phase != Phase::kForward) absl::StrAppend(&line, " phase=", PhaseName(node.phase));
  if (node.forward >= 0) {
    absl::StrAppend(&line, " forward=", Quoted(graph.node(node.forward).name));
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const TensorInfo& info = graph.tensor(node.outputs[i]);
    absl::StrAppend(&line, i == 0 ? " -> " : ", ", ToString(info.type));
    if (!info.annotation.empty())
      absl::StrAppend(&line, " annotation=", Quoted(info.annotation.ToString()));
    if (!info.storage.empty()) absl::StrAppend(&line, " storage=", Quoted(info.storage.ToString()));
    if (!info.state.empty()) absl::StrAppend(&line, " state=", Quoted(info.state.ToString()));
    if (info.role == Role::kResidual || info.role == Role::kStatistic ||
        info.role == Role::kCache) {
      absl::StrAppend(&line, " ", RoleName(info.role));
    }
    if (info.of >= 0) absl::StrAppend(&line, " ", RoleName(info.role), "_of=%", info.of);
  }
  return line;
}

}  // namespace

std::string PrintGraph(const Graph& graph) {
  std::string text;
  for (const Node& node : graph.nodes()) absl::StrAppend(&text, PrintNode(graph, node), "\n");
  for (const auto& output : graph.outputs()) {
    absl::StrAppend(&text, "output ", Quoted(output.first), " = %", output.second, "\n");
  }
  return text;
}

// Reads one line after the other into the graph's own fields: names, stages and types are those of
// the text, not those that Graph::Add would choose.
// Strides, bytes and counts of what is read fit in 64 bits.
constexpr int64_t kMostElements = int64_t{1} << 48;

class GraphParser {
 public:
  GraphParser(absl::string_view text, absl::Span<const OpDef* const> ops)
      : scanner_(text, "graph"), graph_(std::make_unique<Graph>()) {
    ops_[InputOp().name] = &InputOp();
    ops_[VariableOp().name] = &VariableOp();
    for (const OpDef* op : ops) ops_[op->name] = op;
  }

  absl::StatusOr<std::unique_ptr<Graph>> Parse() {
    while (!scanner_.AtEnd()) {
      if (!scanner_.Peek().first_on_line) return scanner_.Error("expected the end of the line");
      if (scanner_.At("%")) {
        RETURN_IF_ERROR(ParseNode());
        continue;
      }
      const TextScanner::Token token = scanner_.Peek();
      ASSIGN_OR_RETURN(const std::string entry, scanner_.Identifier("a node or output"));
      if (scanner_.At("(")) {
        RETURN_IF_ERROR(ParseCall(token, {}));
      } else if (entry == "output") {
        RETURN_IF_ERROR(ParseOutput());
      } else {
        return scanner_.ErrorAt(token,
                                absl::StrCat("expected a node or output, got ", Quoted(entry)));
      }
    }
    const absl::Status status = VerifyGraph(*graph_);
    if (!status.ok()) return AddContext(status, "graph");
    return std::move(graph_);
  }

 private:
  absl::StatusOr<TensorId> ParseTensor() {
    RETURN_IF_ERROR(scanner_.Expect("%"));
    const TextScanner::Token token = scanner_.Peek();
    ASSIGN_OR_RETURN(const int64_t id, scanner_.Integer("the number of a tensor"));
    if (id < 0 || id >= graph_->num_tensors()) {
      return scanner_.ErrorAt(token, absl::StrCat("expected a tensor made before, below %",
                                                  graph_->num_tensors(), ", got %", id));
    }
    return static_cast<TensorId>(id);
  }

  // "%4, %5 = " and then the call.
  absl::Status ParseNode() {
    std::vector<TensorId> outputs;
    do {
      RETURN_IF_ERROR(scanner_.Expect("%"));
      const TextScanner::Token token = scanner_.Peek();
      ASSIGN_OR_RETURN(const int64_t id, scanner_.Integer("the number of a tensor"));
      const int64_t next = graph_->num_tensors() + static_cast<int64_t>(outputs.size());
      if (id != next) {
        return scanner_.ErrorAt(
            token, absl::StrCat("tensors are numbered in order: expected %", next, ", got %", id));
      }
      outputs.push_back(static_cast<TensorId>(id));
    } while (scanner_.Accept(","));
    RETURN_IF_ERROR(scanner_.Expect("="));
    const TextScanner::Token token = scanner_.Peek();
    RETURN_IF_ERROR(scanner_.Identifier("an op").status());
    return ParseCall(token, std::move(outputs));
  }

  // After the op: "(%1, %2) {attributes} name=... -> types".
  absl::Status ParseCall(const TextScanner::Token& op, std::vector<TensorId> outputs) {
    Node node;
    node.id = static_cast<NodeId>(graph_->nodes_.size());
    node.outputs = std::move(outputs);
    const auto found = ops_.find(std::string(op.text));
    if (found == ops_.end()) {
      std::vector<std::string> names;
      for (const auto& entry : ops_) names.push_back(entry.first);
      return scanner_.ErrorAt(
          op, absl::StrCat("there is no op ", Quoted(op.text), DidYouMean(op.text, names)));
    }
    node.op = found->second;
    RETURN_IF_ERROR(scanner_.Expect("("));
    while (!scanner_.Accept(")")) {
      if (!node.inputs.empty()) RETURN_IF_ERROR(scanner_.Expect(","));
      ASSIGN_OR_RETURN(const TensorId input, ParseTensor());
      node.inputs.push_back(input);
    }
    RETURN_IF_ERROR(ParseNodeAttributes(&node));
    RETURN_IF_ERROR(ParseProperties(&node));
    if (!node.outputs.empty()) RETURN_IF_ERROR(scanner_.Expect("->"));
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (i > 0) RETURN_IF_ERROR(scanner_.Expect(","));
      TensorInfo info;
      info.producer = node.id;
      info.output = static_cast<int32_t>(i);
      if (node.op == &VariableOp()) info.role = Role::kParameter;
      RETURN_IF_ERROR(ParseInfo(&info));
      graph_->tensors_.push_back(std::move(info));
    }
    return Append(op, std::move(node));
  }

  absl::Status Append(const TextScanner::Token& at, Node node) {
    const bool source = node.op == &InputOp() || node.op == &VariableOp();
    if (source && node.outputs.size() != 1) {
      return scanner_.ErrorAt(at, absl::StrCat("expected one tensor, got ", node.outputs.size()));
    }
    if (!node_by_name_.emplace(node.name, node.id).second) {
      return scanner_.ErrorAt(at, absl::StrCat("a second node called ", Quoted(node.name)));
    }
    graph_->names_[node.name] = 1;
    if (node.op == &InputOp()) graph_->inputs_.push_back(node.id);
    if (node.op == &VariableOp()) {
      graph_->variables_.push_back(node.id);
      graph_->variable_by_name_[node.name] = node.outputs[0];
    }
    graph_->nodes_.push_back(std::move(node));
    return absl::OkStatus();
  }

  // The text between the braces is the attributes' own.
  absl::Status ParseNodeAttributes(Node* node) {
    node->attributes = node->op->attributes;
    // What is not printed has the default of its struct, whatever the op's own defaults are.
    std::visit([](auto& held) { held = {}; }, node->attributes);
    const TextScanner::Token open = scanner_.Peek();
    if (!scanner_.Accept("{")) return absl::OkStatus();
    const char* const begin = open.text.data() + 1;
    while (!scanner_.At("}")) {
      if (scanner_.AtEnd() || scanner_.Peek().kind == TextScanner::Kind::kBad) {
        return scanner_.ErrorAt(open, "expected \"}\" at the end of the attributes");
      }
      scanner_.Next();
    }
    const char* const end = scanner_.Next().text.data();
    const absl::Status status = ParseAttributesInto(
        absl::string_view(begin, static_cast<size_t>(end - begin)), &node->attributes);
    return status.ok() ? status : scanner_.ErrorAt(open, status.message());
  }

  // "stage=2", or nothing.
  absl::Status ParseNumber(absl::string_view keyword, int32_t* number) {
    if (!scanner_.Accept(keyword)) return absl::OkStatus();
    RETURN_IF_ERROR(scanner_.Expect("="));
    ASSIGN_OR_RETURN(const int64_t read, scanner_.Integer(absl::StrCat("a ", keyword)));
    if (read < 0 || read > 1000000) {
      return scanner_.Error(absl::StrCat("expected a ", keyword, " from 0 on"));
    }
    *number = static_cast<int32_t>(read);
    return absl::OkStatus();
  }

  absl::Status ParseProperties(Node* node) {
    RETURN_IF_ERROR(scanner_.Expect("name"));
    RETURN_IF_ERROR(scanner_.Expect("="));
    ASSIGN_OR_RETURN(node->name, scanner_.String("a name in quotes"));
    RETURN_IF_ERROR(ParseNumber("stage", &node->stage));
    RETURN_IF_ERROR(ParseNumber("block", &node->block));
    RETURN_IF_ERROR(ParseNumber("region", &node->region));
    graph_->next_block_ = std::max(graph_->next_block_, node->block + 1);
    graph_->next_region_ = std::max(graph_->next_region_, node->region + 1);
    if (scanner_.Accept("phase")) {
      RETURN_IF_ERROR(scanner_.Expect("="));
      if (scanner_.Accept("backward")) {
        node->phase = Phase::kBackward;
      } else if (scanner_.Accept("update")) {
        node->phase = Phase::kUpdate;
      } else {
        RETURN_IF_ERROR(scanner_.Expect("forward"));
      }
    }
    if (scanner_.Accept("forward")) {
      RETURN_IF_ERROR(scanner_.Expect("="));
      const TextScanner::Token token = scanner_.Peek();
      ASSIGN_OR_RETURN(const std::string name, scanner_.String("the name of a node"));
      const auto found = node_by_name_.find(name);
      if (found == node_by_name_.end()) {
        return scanner_.ErrorAt(token, absl::StrCat("there is no node ", Quoted(name), " above"));
      }
      node->forward = found->second;
    }
    return absl::OkStatus();
  }

  // "f32[8,64] annotation="data:S0" storage="data:S0" state="data:S0" gradient_of=%4"
  absl::Status ParseInfo(TensorInfo* info) {
    const TextScanner::Token token = scanner_.Peek();
    ASSIGN_OR_RETURN(const std::string name, scanner_.Identifier("an element type"));
    const absl::StatusOr<DType> dtype = ParseDType(name);
    if (!dtype.ok()) return scanner_.ErrorAt(token, dtype.status().message());
    info->type.dtype = *dtype;
    RETURN_IF_ERROR(scanner_.Expect("["));
    int64_t most = kMostElements;  // that are left for the extents to come
    while (!scanner_.Accept("]")) {
      if (info->type.shape.rank() > 0) RETURN_IF_ERROR(scanner_.Expect(","));
      ASSIGN_OR_RETURN(const uint64_t extent, scanner_.Unsigned("an extent"));
      if (extent > static_cast<uint64_t>(most)) {
        return scanner_.ErrorAt(
            token, absl::StrCat("expected a tensor of at most ", kMostElements, " elements"));
      }
      if (extent > 0) most /= static_cast<int64_t>(extent);
      info->type.shape.Append(static_cast<int64_t>(extent));
    }
    RETURN_IF_ERROR(ParseInfoAnnotations("annotation", info->type.shape, &info->annotation));
    RETURN_IF_ERROR(ParseInfoAnnotations("storage", info->type.shape, &info->storage));
    RETURN_IF_ERROR(ParseInfoAnnotations("state", info->type.shape, &info->state));
    for (const Role role : {Role::kResidual, Role::kStatistic, Role::kCache}) {
      if (scanner_.Accept(RoleName(role))) info->role = role;
    }
    for (const Role role : {Role::kState, Role::kGradient}) {
      if (!scanner_.Accept(absl::StrCat(RoleName(role), "_of"))) continue;
      RETURN_IF_ERROR(scanner_.Expect("="));
      info->role = role;
      ASSIGN_OR_RETURN(info->of, ParseTensor());
    }
    return absl::OkStatus();
  }

  absl::Status ParseInfoAnnotations(absl::string_view keyword, const Shape& shape,
                                    SbpAnnotation* annotation) {
    if (!scanner_.Accept(keyword)) return absl::OkStatus();
    RETURN_IF_ERROR(scanner_.Expect("="));
    const TextScanner::Token token = scanner_.Peek();
    ASSIGN_OR_RETURN(const std::string text, scanner_.String("SBP annotation in quotes"));
    absl::StatusOr<SbpAnnotation> parsed = ParseAnnotation(text, shape);
    if (!parsed.ok()) return scanner_.ErrorAt(token, parsed.status().message());
    *annotation = *std::move(parsed);
    return absl::OkStatus();
  }

  absl::Status ParseOutput() {
    const TextScanner::Token token = scanner_.Peek();
    ASSIGN_OR_RETURN(const std::string name, scanner_.String("a name in quotes"));
    RETURN_IF_ERROR(scanner_.Expect("="));
    ASSIGN_OR_RETURN(const TensorId id, ParseTensor());
    graph_->Output(name, Tensor(graph_.get(), id));
    if (graph_->status().ok()) return absl::OkStatus();
    return scanner_.ErrorAt(token, graph_->status().message());
  }

  TextScanner scanner_;
  std::unique_ptr<Graph> graph_;
  std::map<std::string, const OpDef*> ops_;
  std::map<std::string, NodeId> node_by_name_;
};

absl::StatusOr<std::unique_ptr<Graph>> ParseGraph(absl::string_view text,
                                                  absl::Span<const OpDef* const> ops) {
  return GraphParser(text, ops).Parse();
}

}  // namespace sluice
