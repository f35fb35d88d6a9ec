// A loss is what hangs together by logits and their gradient:
//
//   logits = matmul(x, table)            max, sum, picked of logits       loss of these
//   dlogits of logits, max, sum, labels, dpicked
//   dx = matmul_input_gradient(dlogits, table)
//   dtable = matmul_weight_gradient(x, dlogits)
//
// Each op treats a row, one position, by itself, but for dtable, which sums them. So of rows cut in
// n pieces, by slices of x, labels and dpicked, the ops run n times, and loss and dx are put
// together again; dtable is added to by the library as it multiplies.
//
// All of it stands where dlogits stood, in backward: a piece of logits lives from its product to
// its two gradients, so that piece i + 1 has its bytes. What is made of the loss moves behind it;
// nothing of it may be needed for dpicked. So one loss of a program is cut, for what is made of two
// would wait for both. With n products one behind the other the card is as busy as with one, for a
// piece is thousands of rows.
//
// Of GPT-2 124M, 16 x 1024 positions, logits are 1.65 GB in bf16, and the table's gradient 154 MB:
// four pieces keep 0.41 GB at a time and move 0.9 GB more.
#include "framework/compiler/cut_losses.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/compiler/assigned_graph.h"
#include "framework/graph/rewriter.h"
#include "framework/ops/card_ops.h"
#include "framework/ops/op_defs.h"

namespace sluice {
namespace {

struct Loss {
  std::vector<const Node*> nodes;  // in order
  std::vector<const Node*> later;  // what is made of it in forward
  const Node* gradient = nullptr;  // of the logits; the pieces stand in its place
  int dim = 0;                     // of positions, which is cut
  int64_t pieces = 1;
};

// Ops that read logits or what is made of them: what they make is read by others of these, but for
// ends.
bool IsWithin(const OpDef& op) {
  return &op == &CrossEntropyMaxOp() || &op == &CrossEntropySumExpOp() ||
         &op == &CrossEntropyPickOp() || &op == &CrossEntropyGradientOp();
}
bool IsEnd(const OpDef& op) {
  return &op == &CrossEntropyCombineOp() || &op == &MatMulInputGradientOp() ||
         &op == &MatMulWeightGradientOp();
}

// Whether an input of one of these ops has a row for each position.
bool HasRows(const OpDef& op, size_t input) {
  return input == 0 || (&op != &MatMulOp() && &op != &MatMulInputGradientOp());
}

class Finder : private AssignedGraph {
 public:
  Finder(const Graph& graph, const SbpAssignment& sbp, const Grid& grid, int64_t largest)
      : AssignedGraph(graph, sbp), grid_(grid), largest_(largest) {}

  // The first that can be cut.
  std::optional<Loss> Find() const {
    for (const Node& node : graph().nodes()) {
      if (node.op != &CrossEntropyGradientOp() || !IsOnCuda(grid_, node)) continue;
      Loss loss;
      loss.gradient = &node;
      if (Collect(&loss) && Cut(&loss) && CanMove(&loss)) return loss;
    }
    return std::nullopt;
  }

 private:
  bool Collect(Loss* loss) const {
    const Node& product = MakerOf(*loss->gradient, 0);
    if (product.op != &MatMulOp() || product.phase != Phase::kForward) return false;
    if (std::get<MatMulAttributes>(product.attributes).transpose_a) return false;
    std::set<NodeId> ids = {product.id};
    for (auto it = ids.begin(); it != ids.end(); ++it) {
      const Node& node = graph().node(*it);
      if (IsEnd(*node.op)) continue;
      if (is_kept(node.outputs[0])) return false;
      for (const Reader& reader : readers(node.outputs[0])) {
        const OpDef& op = *reader.node->op;
        if (!IsWithin(op) && !IsEnd(op)) return false;
        if (!HasRows(op, reader.input) || !ReadsAsMade(*reader.node, reader.input)) return false;
        ids.insert(reader.node->id);  // behind `it`, for it reads what that makes
      }
    }
    for (const NodeId id : ids) loss->nodes.push_back(&graph().node(id));
    return true;
  }

  // By the last dimension of positions that no device and no micro-batch has a part of.
  bool Cut(Loss* loss) const {
    const TensorType& logits = graph().tensor(loss->gradient->inputs[0]).type;
    const GridSbp& sbp = ChoiceOf(*loss->gradient).inputs[0];
    const int64_t bytes =
        grid_.LargestShardShape(sbp, logits.shape).NumElements() * SizeOf(logits.dtype);
    if (bytes <= largest_) return false;
    for (int dim = logits.shape.rank() - 2; dim >= 0; --dim) {
      if (IsSplit(sbp, dim)) continue;
      for (int64_t pieces = 2; pieces <= logits.shape[dim]; ++pieces) {
        if (logits.shape[dim] % pieces != 0 || bytes / pieces > largest_) continue;
        loss->dim = dim, loss->pieces = pieces;
        return true;
      }
    }
    return false;
  }
  static bool IsSplit(const GridSbp& sbp, int dim) {
    if (sbp.packed == Sbp::S(dim)) return true;
    for (size_t a = 0; a < sbp.size(); ++a) {
      if (sbp[a] == Sbp::S(dim)) return true;
    }
    return false;
  }

  // Whether what is made of the loss can be made where the gradient is: nothing that the pieces
  // read is, and all of it before is of forward.
  bool CanMove(Loss* loss) const {
    const std::set<const Node*> nodes(loss->nodes.begin(), loss->nodes.end());
    std::set<TensorId> made_of_it;
    for (const Node& node : graph().nodes()) {
      const bool within = nodes.count(&node) > 0;
      const bool reads = std::any_of(node.inputs.begin(), node.inputs.end(), [&](TensorId input) {
        const Node& maker = graph().node(graph().tensor(input).producer);
        return made_of_it.count(input) > 0 && !(within && nodes.count(&maker) > 0);
      });
      if (within && reads) return false;
      if (reads) {
        const bool before = node.id < loss->gradient->id;
        if (before != (node.phase == Phase::kForward)) return false;
        if (before) loss->later.push_back(&node);
      }
      if (within || reads) made_of_it.insert(node.outputs.begin(), node.outputs.end());
    }
    return true;
  }

  const Grid& grid_;
  const int64_t largest_;
};

class Cutter {
 public:
  Cutter(const Graph& graph, const SbpAssignment& assignment, const Grid& grid, int64_t largest)
      : from_(graph),
        old_(assignment),
        loss_(Finder(graph, assignment, grid, largest).Find()),
        assigner_(assignment) {
    if (!loss_.has_value()) return;
    gone_.insert(loss_->nodes.begin(), loss_->nodes.end());
    gone_.insert(loss_->later.begin(), loss_->later.end());
  }

  absl::StatusOr<FusedProgram> Run() {
    ASSIGN_OR_RETURN(std::unique_ptr<Graph> graph,
                     RewriteGraph(from_, [&](const Node& node, GraphRewriter* rewriter) {
                       if (loss_.has_value() && &node == loss_->gradient) {
                         AddPieces(*loss_, rewriter);
                       } else if (gone_.count(&node) == 0) {
                         assigner_.Copy(node, rewriter->MapAll(node.inputs), ChoiceOf(node),
                                        rewriter);
                       }
                     }));
    return FusedProgram{std::move(graph), assigner_.Take()};
  }

 private:
  const Choice& ChoiceOf(const Node& node) const { return old_.choices[node.id]; }

  // What is made of the old node in backward, for no node of forward.
  static Node InBackward(const Node& node) {
    Node moved = node;
    moved.phase = Phase::kBackward;
    moved.forward = moved.block = moved.region = -1;
    return moved;
  }

  void AddPieces(const Loss& loss, GraphRewriter* rewriter) {
    std::map<TensorId, std::vector<Tensor>> made;  // by old tensor, by piece
    for (int64_t piece = 0; piece < loss.pieces; ++piece) {
      std::map<std::pair<TensorId, GridSbp>, Tensor> sliced;
      for (const Node* old : loss.nodes) {
        Node node = InBackward(*old);
        Choice choice = ChoiceOf(*old);
        std::vector<Tensor> inputs;
        for (size_t i = 0; i < old->inputs.size(); ++i) {
          const TensorId input = old->inputs[i];
          const auto within = made.find(input);
          if (within != made.end()) {
            inputs.push_back(within->second[piece]);
          } else if (!HasRows(*old->op, i)) {
            inputs.push_back(rewriter->Map(input));
          } else {
            Tensor& slice = sliced[{input, choice.inputs[i]}];
            if (!slice) slice = Slice(loss, piece, *old, i, rewriter);
            inputs.push_back(slice);
          }
        }
        std::vector<Tensor>& pieces = made[old->outputs[0]];
        if (old->op == &MatMulWeightGradientOp() && piece > 0) {
          node.op = &MatMulWeightGradientAddOp();
          inputs.push_back(pieces.back());
          AppendInputLikeOutput(ChoiceOf(*old), 0, &choice);
        }
        pieces.push_back(rewriter->Add(node, inputs)[0]);
        assigner_.Assign(node, std::move(choice), *rewriter);
      }
    }
    for (const Node* old : loss.nodes) {
      const std::vector<Tensor>& pieces = made[old->outputs[0]];
      if (!IsEnd(*old->op)) continue;
      const bool summed = old->op == &MatMulWeightGradientOp();
      rewriter->Replace(old->outputs[0],
                        summed ? pieces.back() : Join(loss, *old, pieces, rewriter));
    }
    for (const Node* node : loss.later) {
      assigner_.Copy(InBackward(*node), rewriter->MapAll(node->inputs), ChoiceOf(*node), rewriter);
    }
  }

  // Of an op that moves what an operand has, split as that is.
  static Choice Alone(const Choice& like) {
    Choice choice;
    choice.signatures.resize(like.signatures.size());
    return choice;
  }

  // The rows of a piece of what a node reads, lying as the node reads it.
  Tensor Slice(const Loss& loss, int64_t piece, const Node& reader, size_t input,
               GraphRewriter* rewriter) {
    const TensorId whole = reader.inputs[input];
    const int64_t extent = from_.tensor(whole).type.shape[loss.dim], rows = extent / loss.pieces;
    Node node = InBackward(from_.node(from_.tensor(whole).producer));
    node.op = &SliceOp();
    node.attributes = SliceAttributes{loss.dim, piece * rows, (piece + 1) * rows, extent};
    node.name = absl::StrCat(node.name, "/slice");
    node.stage = reader.stage;
    node.outputs = {whole};
    const Tensor made = rewriter->Add(node, {rewriter->Map(whole)})[0];
    Choice choice = Alone(ChoiceOf(reader));
    AppendInput(ChoiceOf(reader), input, 0, &choice);
    AppendOutputLikeInput(ChoiceOf(reader), input, &choice);
    assigner_.AssignAsMade(std::move(choice), *rewriter);
    return made;
  }

  Tensor Join(const Loss& loss, const Node& maker, const std::vector<Tensor>& pieces,
              GraphRewriter* rewriter) {
    Node node = InBackward(maker);
    node.op = &ConcatOp();
    node.attributes = ConcatAttributes{loss.dim};
    node.name = absl::StrCat(node.name, "/concat");
    const Tensor made = rewriter->Add(node, pieces)[0];
    Choice choice = Alone(ChoiceOf(maker));
    AppendOutput(ChoiceOf(maker), 0, &choice);
    for (size_t i = 0; i < pieces.size(); ++i) {
      AppendInputLikeOutput(ChoiceOf(maker), 0, &choice);
    }
    assigner_.Assign(node, std::move(choice), *rewriter);
    return made;
  }

  const Graph& from_;
  const SbpAssignment& old_;
  const std::optional<Loss> loss_;
  std::set<const Node*> gone_;
  Assigner assigner_;
};

}  // namespace

absl::StatusOr<FusedProgram> CutLosses(const Graph& graph, const SbpAssignment& assignment,
                                       const Grid& grid, int64_t largest) {
  return Cutter(graph, assignment, grid, largest).Run();
}

}  // namespace sluice
