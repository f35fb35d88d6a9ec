// Makes a new graph out of an old one, node by node. What is copied keeps its name, attributes (and
// with them the key of its draws), annotations, role, phase, block, stage and forward node; what a
// pass puts in its place, or beside it, is added by the functions over Tensor as in a model.
//
//   absl::StatusOr<std::unique_ptr<Graph>> made = RewriteGraph(from, [&](const Node& node,
//                                                                       GraphRewriter* rewriter) {
//     if (node.op != &GeluOp()) return rewriter->Copy(node);
//     rewriter->Enter(node, "relu");
//     rewriter->Replace(node.outputs[0], Relu(rewriter->Map(node.inputs[0])));
//   });
//
// One thread. The new graph is verified.
#ifndef SLUICE_FRAMEWORK_GRAPH_REWRITER_H_
#define SLUICE_FRAMEWORK_GRAPH_REWRITER_H_

#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/graph/graph.h"

namespace sluice {

class GraphRewriter {
 public:
  // Both must outlive the rewriter.
  GraphRewriter(const Graph& from, Graph* to);

  const Graph& from() const { return from_; }
  Graph* to() { return to_; }

  // What stands for an old tensor in the new graph. REQUIRES: its producer was copied or replaced.
  Tensor Map(TensorId old) const;
  std::vector<Tensor> MapAll(const std::vector<TensorId>& old) const;
  // From here on `made` stands for the old tensor; it takes over its annotation and role.
  void Replace(TensorId old, Tensor made);

  // Copies a node on what stands for its inputs, or on these.
  void Copy(const Node& node) { Copy(node, MapAll(node.inputs)); }
  void Copy(const Node& node, const std::vector<Tensor>& inputs);
  // Adds a node like `node`, an old one or a changed copy of one, and returns its outputs; they
  // have the annotations of the old outputs but stand for nothing. A name that is taken gets a
  // number.
  std::vector<Tensor> Add(const Node& node, const std::vector<Tensor>& inputs);

  // What is added from here on, until the next node is visited, is of the node's phase, stage,
  // block and forward node, in the scope "<name of the node>/<name>".
  void Enter(const Node& node, absl::string_view name);

 private:
  friend absl::StatusOr<std::unique_ptr<Graph>> RewriteGraph(
      const Graph& from, absl::FunctionRef<void(const Node&, GraphRewriter*)> visit);
  NodeId MapForward(const Node& node) const;
  Tensor AddSource(const Node& node);
  void CarryAnnotations(TensorId old, TensorId made);

  const Graph& from_;
  Graph* const to_;
  std::vector<TensorId> tensors_;  // by old tensor; -1: nothing yet
  std::vector<NodeId> nodes_;      // by old node that was copied; -1: none
};

// Visits the nodes in order, then carries the outputs over. What a visit neither copies nor
// replaces is gone; an error if anything still reads it, with the name of the reader.
absl::StatusOr<std::unique_ptr<Graph>> RewriteGraph(
    const Graph& from, absl::FunctionRef<void(const Node&, GraphRewriter*)> visit);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_GRAPH_REWRITER_H_
