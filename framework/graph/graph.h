// A Graph is a program for one big logical device: nodes in topological order, tensors, variables,
// inputs and named outputs. It is built by functions over Tensor and Scope; errors are sticky: the
// first is kept with its scope path, later calls give empty tensors, Graph::status() tells.
// One thread builds a graph; a built graph is read by any.
#ifndef SLUICE_FRAMEWORK_GRAPH_GRAPH_H_
#define SLUICE_FRAMEWORK_GRAPH_GRAPH_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/graph/op_def.h"
#include "framework/sbp/nd_sbp.h"

namespace sluice {

using NodeId = int32_t;
using TensorId = int32_t;
class Graph;

// kInput and kVariable nodes belong to kForward. Scripts, quotas and signature search follow it.
enum class Phase : uint8_t { kForward, kBackward, kUpdate };
absl::string_view PhaseName(Phase phase);

struct Node {
  NodeId id = -1;
  const OpDef* op = nullptr;
  Attributes attributes;
  std::vector<TensorId> inputs, outputs;
  std::string name;    // unique: the scope it was written in, see InScope; a source's own
  int32_t stage = -1;  // pipeline stage; -1 until Graph::Finish settles it
  // Of a forward node or a variable: the block that it was written in, of those between which
  // stages are cut (passes/cut_stages.h), and the region that backward computes again instead of
  // keeping its activations (passes/recompute.h); numbers in order of writing, -1: none.
  int32_t block = -1, region = -1;
  Phase phase = Phase::kForward;
  NodeId forward = -1;  // of a backward node: the node whose gradient it is part of
};

// What a tensor is for. A pass that makes a tensor says so; whoever needs to know asks the tensor.
enum class Role : uint8_t {
  kActivation,  // what ops hand to each other
  kResidual,    // of these: the stream that branches of the network add to
  kParameter,   // a variable that is learned
  kState,       // a variable that the optimizer keeps for the parameter `of`
  kStatistic,   // a variable that steps fold a statistic of theirs into, and evaluation reads
  // A variable that steps of programs that have it leave to each other, such as the keys of
  // attention while text is sampled. It lies where other programs have their activations: its
  // values are gone once one of those runs, it has none to begin with, and no checkpoint has it.
  kCache,
  kGradient,  // dense, of the parameter `of`
};
absl::string_view RoleName(Role role);
// Of variables alone.
bool IsVariableRole(Role role);

// How a parameter lies on the mesh, as SBP annotations, "data:S0 model:S1". An axis that is not
// named follows from the line above it, and the first from what reads the parameter. Three
// instances:
//   {.read = "model:S1"}    half of it on each device of an axis of two, its state too
//   {.state = "data:S0"}    all of it everywhere, its state in parts (ZeRO-1)
//   {.stored = "data:S0"}   in parts, as its state is, and gathered when it is read (ZeRO-3)
struct ParamLayout {
  std::string read = {};    // how all its readers see it, forward and backward
  std::string stored = {};  // how it is kept between steps
  std::string state = {};   // how what the optimizer keeps for it is kept
};

struct TensorInfo {
  TensorType type;
  NodeId producer = -1;
  int32_t output = 0;        // which output of the producer
  SbpAnnotation annotation;  // what the user said of it; on a variable: how its readers see it
  SbpAnnotation storage;     // variables: how it is stored, where that differs from how it is read
  SbpAnnotation state;       // parameters: how its state is, where that differs from its storage
  Role role = Role::kActivation;
  TensorId of = -1;  // the parameter that the role is about
};

// A handle, cheap to copy. Empty after an error.
class Tensor {
 public:
  Tensor() = default;
  Tensor(Graph* graph, TensorId id) : graph_(graph), id_(id) {}
  explicit operator bool() const { return graph_ != nullptr; }
  Graph* graph() const { return graph_; }
  TensorId id() const { return id_; }
  const TensorType& type() const;  // f32[] where empty
  const Shape& shape() const { return type().shape; }
  DType dtype() const { return type().dtype; }
  // Binds SBP annotations, e.g. x.With("model:S1"); returns the same tensor.
  Tensor With(absl::string_view annotation) const;

 private:
  Graph* graph_ = nullptr;
  TensorId id_ = -1;
};

class Graph {
 public:
  Graph() = default;
  Graph& operator=(const Graph&) = delete;
  // Handles of the graph moved from are void.
  Graph(Graph&&) = default;
  Graph& operator=(Graph&&) = default;
  // All that it holds, but no context: ids are the same in both, handles are of the one they were
  // made of.
  std::unique_ptr<Graph> Copy() const;

  // Adds a node. Its stage is the latest of its inputs' (a backward node: its forward's); its name
  // comes from the scope of the context. Returns its outputs.
  std::vector<Tensor> Add(const OpDef& op, Attributes attributes, std::vector<Tensor> inputs);
  Tensor Input(absl::string_view name, DType dtype, const Shape& shape,
               absl::string_view annotation);
  // A variable of this name, made once; a second call must agree in type.
  Tensor Variable(absl::string_view name, DType dtype, const Shape& shape,
                  const VariableAttributes& init, const ParamLayout& layout, int32_t stage = -1);
  Tensor Variable(absl::string_view name, DType dtype, const Shape& shape,
                  const VariableAttributes& init, absl::string_view read, int32_t stage = -1) {
    return Variable(name, dtype, shape, init, ParamLayout{std::string(read), "", ""}, stage);
  }
  void Output(absl::string_view name, Tensor tensor);

  // Nodes added while a context is set are of its scope, phase and forward node. Models set the
  // scope by InScope; passes set all of it.
  struct Context {
    Phase phase = Phase::kForward;
    NodeId forward = -1;
    std::optional<int32_t> stage;  // forced
    std::string scope;             // path
    int32_t block = -1, region = -1;
  };
  void set_context(const Context& context) { context_ = context; }
  const Context& context() const { return context_; }

  // Gives a stage to every node that has none yet: variables and inputs (and what is computed from
  // such alone) their first reader's, 0 where nothing says otherwise. The backward pass needs it.
  void SettleStages();
  // Settles stages and verifies. Call once, last.
  absl::Status Finish();
  // The first error, with its scope path.
  const absl::Status& status() const { return status_; }
  void SetError(const absl::Status& status, absl::string_view where);

  // References to nodes and tensors stay good while the graph grows.
  const std::deque<Node>& nodes() const { return nodes_; }
  const Node& node(NodeId id) const { return nodes_[id]; }
  const TensorInfo& tensor(TensorId id) const { return tensors_[id]; }
  TensorInfo& mutable_tensor(TensorId id) { return tensors_[id]; }
  Node& mutable_node(NodeId id) { return nodes_[id]; }
  int32_t num_tensors() const { return static_cast<int32_t>(tensors_.size()); }
  // In order of creation.
  const std::vector<NodeId>& variables() const { return variables_; }
  const std::vector<NodeId>& inputs() const { return inputs_; }
  const std::vector<std::pair<std::string, TensorId>>& outputs() const { return outputs_; }
  Tensor FindVariable(absl::string_view name);  // empty if there is none
  bool IsVariable(TensorId id) const;
  // REQUIRES: `parameter` is a variable of the tensor's shape; only kState and kGradient have one.
  void SetRole(TensorId tensor, Role role, TensorId parameter);
  // Tensor and parameter of all that have this role, in order of creation.
  std::vector<std::pair<TensorId, TensorId>> TensorsOf(Role role) const;
  // Drops the nodes from `from` on that none of `keep` depends on; later ones move up, and `keep`
  // is renumbered with them. Handles of moved tensors are void. For the backward pass, which asks
  // ops for more gradients than it needs.
  void RemoveUnused(NodeId from, std::vector<TensorId>* keep);

 private:
  friend class GraphParser;
  friend class GraphRewriter;
  friend class Scope;
  Graph(const Graph&) = default;  // a copy is asked for by name
  // Adds a node on these inputs, of the types that inference gives; `where` is for errors.
  std::vector<Tensor> Append(Node node, const std::vector<Tensor>& inputs, absl::string_view where);
  int32_t StageOf(const OpDef& op, const std::vector<Tensor>& inputs) const;
  absl::Status CheckInputs(const OpDef& op, const Attributes& attributes,
                           const std::vector<Tensor>& inputs) const;
  // An input or a variable.
  TensorId AddSource(const OpDef& op, Attributes attributes, absl::string_view name,
                     const TensorType& type, SbpAnnotation annotation);
  std::string UniqueName(const std::string& name);
  // Of the next node, by the scope of the context.
  std::string NameFor(const OpDef& op);
  std::deque<Node> nodes_;
  std::deque<TensorInfo> tensors_;
  std::vector<NodeId> variables_, inputs_;
  std::vector<std::pair<std::string, TensorId>> outputs_;
  std::map<std::string, TensorId, std::less<>> variable_by_name_;
  // How many nodes wanted a name. Looked up many times a node and walked through nowhere, so that
  // the order of hashes shows in nothing.
  absl::flat_hash_map<std::string, int> names_;
  int32_t next_block_ = 0, next_region_ = 0;
  Context context_;
  absl::Status status_;
};

// Names parameters and, entered by InScope, ops; carries the stage. s / "attn" is the scope "attn"
// inside s.
class Scope {
 public:
  explicit Scope(Graph* graph) : graph_(graph) {}
  Scope operator/(absl::string_view name) const;
  Scope Stage(int32_t stage) const;
  // The scope `name` inside this one, a block of its own: where the mesh has pipeline stages they
  // are cut between blocks.
  Scope Block(absl::string_view name) const;
  // This scope as a region of its own, whose activations may be computed again in backward.
  Scope Recompute() const;
  Tensor Param(absl::string_view name, const Shape& shape, const ParamLayout& layout,
               const VariableAttributes& init = {}) const;
  // Stored as it is read, its state too.
  Tensor Param(absl::string_view name, const Shape& shape, absl::string_view read = "",
               const VariableAttributes& init = {}) const {
    return Param(name, shape, ParamLayout{std::string(read), "", ""}, init);
  }
  Graph* graph() const { return graph_; }
  const std::string& path() const { return path_; }
  int32_t stage() const { return stage_; }
  int32_t block() const { return block_; }
  int32_t region() const { return region_; }

 private:
  Graph* graph_;
  std::string path_;
  int32_t stage_ = -1, block_ = -1, region_ = -1;
};

// Ops that are added while an InScope lives belong to its scope, whatever scope the caller is in; a
// function that takes a Scope enters it first. The first op of a scope is called as the scope is,
// "h1/mlp/down", each further one after its kind as well, "h1/mlp/down/add", and from the second of
// a kind on with a number, "h1/mlp/down/add_2". Outside of any scope an op is called after its kind
// alone. So an op that is appended renames no other. Scopes nest as blocks of code do.
class InScope {
 public:
  explicit InScope(const Scope& scope);
  ~InScope();
  InScope(const InScope&) = delete;
  InScope& operator=(const InScope&) = delete;

 private:
  Graph* const graph_;
  const Graph::Context outer_;
};

// One program over variables that several programs may share by name.
struct ProgramGraph {
  std::string name;  // "train", "eval", "sample"
  const Graph* graph = nullptr;
  // How many micro-batches a device takes one after the other. 0: of the first program what the
  // compiler's options say, of others 1.
  int64_t micro_batches = 0;
};

// The two ops that are part of every graph rather than of the catalogue. They have no inference and
// no reference implementation; a split of either along any dimension is a signature.
const OpDef& InputOp();
const OpDef& VariableOp();

std::vector<TensorType> InputTypes(const Graph& graph, const Node& node);
std::vector<TensorType> OutputTypes(const Graph& graph, const Node& node);
// "f32[2,3], i32[]"
std::string TypesToString(absl::Span<const TensorType> types);
// An error unless `init` names a way to draw initial values.
absl::Status CheckInit(const VariableAttributes& attributes);
// "data:S0", checked against the rank of the tensor.
absl::StatusOr<SbpAnnotation> ParseAnnotation(absl::string_view annotation, const Shape& shape);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_GRAPH_GRAPH_H_
