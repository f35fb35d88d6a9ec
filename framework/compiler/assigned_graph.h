// What rewrites share that make one node of several after selection (fuse.h, fuse_on_cards.h): who
// reads a tensor and in which layout, and the assignment of the graph that they make. Pure; one
// thread.
#ifndef SLUICE_FRAMEWORK_COMPILER_ASSIGNED_GRAPH_H_
#define SLUICE_FRAMEWORK_COMPILER_ASSIGNED_GRAPH_H_

#include <utility>
#include <vector>

#include "framework/compiler/grid.h"
#include "framework/compiler/sbp_assignment.h"
#include "framework/graph/graph.h"
#include "framework/graph/rewriter.h"

namespace sluice {

class AssignedGraph {
 public:
  struct Reader {
    const Node* node;
    size_t input;
  };

  // Both must outlive it.
  AssignedGraph(const Graph& graph, const SbpAssignment& sbp);

  const Graph& graph() const { return graph_; }
  const SbpAssignment& sbp() const { return sbp_; }
  const Choice& ChoiceOf(const Node& node) const { return sbp_.choices[node.id]; }
  const Node& MakerOf(const Node& node, size_t input) const {
    return graph_.node(graph_.tensor(node.inputs[input]).producer);
  }
  const std::vector<Reader>& readers(TensorId tensor) const { return readers_[tensor]; }
  // Whether it is an output of the program.
  bool is_kept(TensorId tensor) const { return kept_[tensor]; }
  bool IsReadOnce(TensorId tensor) const { return readers_[tensor].size() == 1 && !kept_[tensor]; }

  // Whether a node reads a tensor as its producer left it, on its stage.
  bool ReadsAsMade(const Node& node, size_t input) const;
  // And in its phase.
  bool ReadsInPlace(const Node& node, size_t input) const;
  // Whether what goes in lies as what comes out.
  bool KeepsLayout(const Node& node) const;
  // Whether every operand is of the first output's type.
  bool AreOfOneType(const Node& node) const;

 private:
  const Graph& graph_;
  const SbpAssignment& sbp_;
  std::vector<std::vector<Reader>> readers_;  // by tensor
  std::vector<bool> kept_;                    // by tensor
};

bool IsOnCuda(const Grid& grid, const Node& node);

// Gives a choice one operand more: what `from` says of its input, or of its output.
void AppendInput(const Choice& from, size_t input, size_t to, Choice* choice);
void AppendInputLikeOutput(const Choice& from, size_t output, Choice* choice);
void AppendOutputLikeInput(const Choice& from, size_t input, Choice* choice);
void AppendOutput(const Choice& from, size_t output, Choice* choice);

// Makes the assignment of a graph that is rewritten, node by node.
class Assigner {
 public:
  // `old`, of the graph before, must outlive it.
  explicit Assigner(const SbpAssignment& old) : old_(old) { new_.warnings = old.warnings; }

  // Of the node that was just made like `node`: it is assigned what `choice` says, and its tensors
  // what is said of the old ones that they take the place or the shape of.
  void Assign(const Node& node, Choice choice, GraphRewriter& rewriter);
  // Of the node that was just made, whose outputs are read as it leaves them.
  void AssignAsMade(Choice choice, GraphRewriter& rewriter);
  // Copies a node, and assigns.
  void Copy(const Node& node, const std::vector<Tensor>& inputs, Choice choice,
            GraphRewriter* rewriter);
  SbpAssignment Take() { return std::move(new_); }

 private:
  const SbpAssignment& old_;
  SbpAssignment new_;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMPILER_ASSIGNED_GRAPH_H_
