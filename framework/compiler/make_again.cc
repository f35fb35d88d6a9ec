// A norm reads x and writes y of the same size, by one pass that memory bounds. Backward keeps x
// for the norm's own gradients, which take the mask of a relu behind the norm from x as well. So y
// has to be kept for its other readers alone: mostly the weights' gradient of the next convolution.
// To make all of them again would take ResNet-50 a twentieth of its step, 4 GB moved. Behind the
// first norm stands a pooling, whose gradient looks for the maxima in y: that y alone is a
// thirtieth of all that ResNet-50 keeps, and takes half a hundredth of a step to make. An index of
// each window's maximum, made in forward, would be an eighth of y and spare the search; it would
// change the op for every device.
#include "framework/compiler/make_again.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "framework/base/status.h"
#include "framework/compiler/assigned_graph.h"
#include "framework/graph/rewriter.h"
#include "framework/ops/op_defs.h"
#include "framework/passes/recompute.h"

namespace sluice {
namespace {

class Again : private AssignedGraph {
 public:
  Again(const Graph& graph, const SbpAssignment& assignment, const Grid& grid)
      : AssignedGraph(graph, assignment), grid_(grid), assigner_(assignment) {}

  absl::StatusOr<FusedProgram> Run() {
    ASSIGN_OR_RETURN(std::unique_ptr<Graph> made,
                     RewriteGraph(graph(), [&](const Node& node, GraphRewriter* rewriter) {
                       std::vector<Tensor> inputs = rewriter->MapAll(node.inputs);
                       if (IsMadeAgainFor(node)) inputs[0] = Make(MakerOf(node, 0), rewriter);
                       assigner_.Copy(node, inputs, ChoiceOf(node), rewriter);
                     }));
    return FusedProgram{std::move(made), assigner_.Take()};
  }

 private:
  bool IsMadeAgainFor(const Node& node) const {
    if (node.op != &MaxPoolGradientOp() || !IsOnCuda(grid_, node) || !ReadsAsMade(node, 0)) {
      return false;
    }
    const Node* norm = &MakerOf(node, 0);
    for (; norm->op->view; norm = &MakerOf(*norm, 0)) {
      if (!ReadsAsMade(*norm, 0)) return false;
    }
    if (norm->op != &BatchNormOp() && norm->op != &BatchNormReluOp()) return false;
    if (norm->phase != Phase::kForward || !IsForForwardAnd(norm->outputs[0], node)) return false;
    for (size_t i = 0; i < norm->inputs.size(); ++i) {
      if (!ReadsAsMade(*norm, i) || !IsThereInBackward(norm->inputs[i])) return false;
    }
    return true;
  }

  // Whether nothing else reads it behind forward, as it is or by a view.
  bool IsForForwardAnd(TensorId tensor, const Node& node) const {
    const std::vector<Reader>& all = readers(tensor);
    return !is_kept(tensor) && std::all_of(all.begin(), all.end(), [&](const Reader& reader) {
      if (reader.node == &node) return true;
      if (reader.node->phase != Phase::kForward) return false;
      return !reader.node->op->view || IsForForwardAnd(reader.node->outputs[0], node);
    });
  }

  bool IsThereInBackward(TensorId tensor) const {
    const std::vector<Reader>& all = readers(tensor);
    return graph().IsVariable(tensor) || std::any_of(all.begin(), all.end(), [](const Reader& x) {
             return x.node->phase == Phase::kBackward;
           });
  }

  // A norm again, or a view of what a norm makes again.
  Tensor Make(const Node& node, GraphRewriter* rewriter) {
    std::vector<Tensor> inputs = rewriter->MapAll(node.inputs);
    if (node.op->view) inputs[0] = Make(MakerOf(node, 0), rewriter);
    const Tensor made = rewriter->Add(MadeAgain(node), inputs)[0];
    assigner_.Assign(node, ChoiceOf(node), *rewriter);
    return made;
  }

  const Grid& grid_;
  Assigner assigner_;
};

}  // namespace

absl::StatusOr<FusedProgram> MakeAgain(const Graph& graph, const SbpAssignment& assignment,
                                       const Grid& grid) {
  return Again(graph, assignment, grid).Run();
}

}  // namespace sluice
