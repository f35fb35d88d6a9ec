// Three patterns, where `view` is a reshape or nothing (batch norm is of groups of rows) and every
// tensor in the middle has no reader but the one shown:
//
//   y = [relu](view(batch_norm(x)) [+ addend])
//   dx, sums = gradients of batch_norm(x) by view(relu_gradient(y, dy)), without an addend
//   the same with an addend: dz = relu_gradient(y, dy) is also what goes on to the addend
//
// The second leaves no trace of relu's gradient: whether an element passed is known from x, which
// the gradients read anyway. With an addend it is not, so that the sums, which come first, take
// relu's gradient over, and the sum of dy's two terms; the rest reads the dz that they store.
//
// docs/adr/0014 says why this is after selection and not before.
#include "framework/compiler/fuse.h"

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/compiler/assigned_graph.h"
#include "framework/graph/rewriter.h"
#include "framework/ops/op_defs.h"

namespace sluice {
namespace {

// A batch norm and what follows it.
struct FusedNorm {
  const Node* norm = nullptr;
  const Node* view = nullptr;  // of its result; null: none
  const Node* add = nullptr;   // null: none
  size_t addend = 0;           // which input of it
  const Node* relu = nullptr;  // null: none
  Tensor y = {};               // in the new graph, in the shape of the norm

  const Node& last() const { return relu != nullptr ? *relu : *add; }
};

// What gives the gradients of one that ends in a relu.
struct FusedGradient {
  FusedNorm* of = nullptr;
  const Node* relu = nullptr;       // relu_gradient
  const Node* view = nullptr;       // of its result; null: none
  const Node* sum = nullptr;        // of two terms that are its dy; null: none
  const Node* parameter = nullptr;  // batch_norm_parameter_gradient
  const Node* input = nullptr;      // batch_norm_gradient
  bool dz_is_read = false;          // by others than the gradients, too
};

class Matcher : private AssignedGraph {
 public:
  using AssignedGraph::AssignedGraph;

  // By the last node of each.
  std::map<NodeId, FusedNorm> FindNorms() {
    std::map<NodeId, FusedNorm> found;
    for (const OpDef* last : {&ReluOp(), &AddOp()}) {  // the longer ones first
      for (const Node& node : graph().nodes()) {
        FusedNorm norm;
        if (node.op != last || taken_.count(node.id) > 0 || !MatchNorm(node, &norm)) continue;
        for (const Node* member : {norm.norm, norm.view, norm.add, norm.relu}) Take(member);
        found[node.id] = norm;
      }
    }
    return found;
  }

  // By their relu_gradient.
  std::map<NodeId, FusedGradient> FindGradients(std::map<NodeId, FusedNorm>* norms) {
    std::map<NodeId, FusedGradient> found;
    for (const Node& node : graph().nodes()) {
      if (node.op != &ReluGradientOp()) continue;
      const auto norm = norms->find(graph().tensor(node.inputs[0]).producer);
      FusedGradient gradient;
      if (norm == norms->end() || !MatchGradient(node, &norm->second, &gradient)) continue;
      if (gradient.sum != nullptr) Take(gradient.sum);
      found[node.id] = gradient;
    }
    return found;
  }

 private:
  void Take(const Node* node) {
    if (node != nullptr) taken_.insert(node->id);
  }

  // The norm behind an input, and the view between, if nothing else reads either.
  bool MatchNormBehind(const Node& node, size_t input, FusedNorm* found) const {
    if (!ReadsInPlace(node, input) || !IsReadOnce(node.inputs[input])) return false;
    const Node* maker = &MakerOf(node, input);
    if (maker->op == &ReshapeOp()) {
      if (!ReadsInPlace(*maker, 0) || !IsReadOnce(maker->inputs[0])) return false;
      found->view = maker;
      maker = &MakerOf(*maker, 0);
    }
    found->norm = maker;
    return maker->op == &BatchNormOp();
  }

  bool MatchAdd(const Node& add, FusedNorm* found) const {
    if (!KeepsLayout(add) || !AreOfOneType(add)) return false;
    found->add = &add;
    for (const size_t input : {0, 1}) {
      found->view = nullptr;
      found->addend = 1 - input;
      if (MatchNormBehind(add, input, found)) return true;
    }
    return false;
  }

  bool MatchNorm(const Node& last, FusedNorm* found) const {
    if (last.op == &AddOp()) return MatchAdd(last, found);
    if (!KeepsLayout(last)) return false;
    found->relu = &last;
    if (MatchNormBehind(last, 0, found)) return true;
    found->view = nullptr;
    const Node& add = MakerOf(last, 0);
    return add.op == &AddOp() && ReadsInPlace(last, 0) && IsReadOnce(last.inputs[0]) &&
           MatchAdd(add, found);
  }

  // The reader of a tensor that is this op, at input 0 and in place, and a gradient of x. Null:
  // there is none.
  const Node* GradientOf(TensorId x, TensorId dz, const OpDef& op) const {
    for (const Reader& reader : readers(dz)) {
      if (reader.node->op != &op || reader.input != 0 || !ReadsInPlace(*reader.node, 0)) continue;
      if (reader.node->inputs[1] == x) return reader.node;
    }
    return nullptr;
  }

  // The view of dz that gradients of x read. Another norm may be the addend, and have its own.
  const Node* ViewFor(TensorId x, TensorId dz) const {
    for (const Reader& reader : readers(dz)) {
      const Node& view = *reader.node;
      if (view.op != &ReshapeOp() || !ReadsInPlace(view, 0)) continue;
      if (GradientOf(x, view.outputs[0], BatchNormGradientOp()) != nullptr) return &view;
    }
    return nullptr;
  }

  // Whether the operands of a gradient from its input 1 on are those of the norm, as that read
  // them.
  bool ReadsOperandsOf(const Node& norm, const Node& gradient, size_t count) const {
    for (size_t i = 0; i < count; ++i) {
      if (gradient.inputs[1 + i] != norm.inputs[i]) return false;
      if (ChoiceOf(gradient).inputs[1 + i] != ChoiceOf(norm).inputs[i]) return false;
    }
    return PrintAttributes(gradient.attributes) == PrintAttributes(norm.attributes) &&
           gradient.stage == norm.stage;
  }

  // A parameter that is gathered for its readers is gathered once more for backward.
  bool AreWhereTheyAreRead(const Node& norm, std::initializer_list<size_t> inputs) const {
    for (const size_t i : inputs) {
      const TensorId tensor = norm.inputs[i];
      if (sbp().produced[tensor] != ChoiceOf(norm).inputs[i]) return false;
      if (sbp().consumed[tensor] != ChoiceOf(norm).inputs[i]) return false;
    }
    return true;
  }

  bool MatchGradient(const Node& relu, FusedNorm* norm, FusedGradient* found) const {
    if (norm->relu == nullptr || !KeepsLayout(relu)) return false;
    if (ChoiceOf(relu).inputs[0] != ChoiceOf(*norm->relu).outputs[0]) return false;
    found->of = norm;
    found->relu = &relu;
    const TensorId x = norm->norm->inputs[0];
    TensorId dz = relu.outputs[0];
    if (norm->view != nullptr) {
      found->view = ViewFor(x, dz);
      if (found->view == nullptr) return false;
      found->dz_is_read = !IsReadOnce(dz);
      dz = found->view->outputs[0];
    }
    found->parameter = GradientOf(x, dz, BatchNormParameterGradientOp());
    found->input = GradientOf(x, dz, BatchNormGradientOp());
    if (found->parameter == nullptr || found->input == nullptr) return false;
    const bool only_these = readers(dz).size() == 2 && !is_kept(dz);
    if (norm->view != nullptr && !only_these) return false;
    found->dz_is_read |= !only_these;
    if (!ReadsOperandsOf(*norm->norm, *found->parameter, 3)) return false;
    if (!ReadsOperandsOf(*norm->norm, *found->input, 4)) return false;
    // dz lies as x and y do.
    const GridSbp& sbp = ChoiceOf(*norm->norm).inputs[0];
    if (ChoiceOf(*found->parameter).inputs[0] != sbp) return false;
    if (norm->add == nullptr) {
      return !found->dz_is_read && AreWhereTheyAreRead(*norm->norm, {3, 4});
    }
    const Node& sum = MakerOf(relu, 1);
    const bool sums = sum.op == &AddOp() || (sum.op == &AddNOp() && sum.inputs.size() == 2);
    if (sums && ReadsInPlace(relu, 1) && IsReadOnce(relu.inputs[1]) && KeepsLayout(sum) &&
        AreOfOneType(sum)) {
      found->sum = &sum;
    }
    return true;
  }

  std::set<NodeId> taken_;
};

// Of a view the other way.
Choice Undone(Choice choice) {
  std::swap(choice.inputs, choice.outputs);
  for (Signature& signature : choice.signatures) std::swap(signature.inputs, signature.outputs);
  return choice;
}

class Fuser {
 public:
  Fuser(const Graph& graph, const SbpAssignment& assignment)
      : from_(graph), old_(assignment), assigner_(assignment) {
    Matcher matcher(graph, assignment);
    norms_ = matcher.FindNorms();
    gradients_ = matcher.FindGradients(&norms_);
    for (const auto& [id, norm] : norms_) {
      for (const Node* gone : {norm.norm, norm.view, norm.add}) Skip(gone, id);
    }
    for (const auto& [id, gradient] : gradients_) {
      const bool adds = gradient.of->add != nullptr;
      Skip(gradient.relu, adds ? id : -1);
      Skip(gradient.sum, -1);
      if (adds) {
        Skip(gradient.view, -1);
        Skip(gradient.parameter, -1);
      } else {
        if (gradient.view != nullptr) views_[gradient.view->id] = &gradient;
        parameters_[gradient.parameter->id] = &gradient;
      }
      if (!adds) inputs_[gradient.input->id] = &gradient;
    }
  }

  absl::StatusOr<FusedProgram> Run() {
    ASSIGN_OR_RETURN(std::unique_ptr<Graph> graph,
                     RewriteGraph(from_, [&](const Node& node, GraphRewriter* rewriter) {
                       rewriter_ = rewriter;
                       Visit(node);
                     }));
    return FusedProgram{std::move(graph), assigner_.Take()};
  }

 private:
  void Skip(const Node* node, NodeId unless) {
    if (node != nullptr && node->id != unless) gone_.insert(node->id);
  }
  const Choice& ChoiceOf(const Node& node) const { return old_.choices[node.id]; }
  Tensor Map(TensorId tensor) const { return rewriter_->Map(tensor); }

  void Visit(const Node& node) {
    if (gone_.count(node.id) > 0) return;
    if (const auto found = norms_.find(node.id); found != norms_.end()) {
      return AddNorm(&found->second);
    }
    if (const auto found = gradients_.find(node.id); found != gradients_.end()) {
      return AddSums(found->second);
    }
    if (const auto found = views_.find(node.id); found != views_.end()) {
      return Copy(node, {Map(found->second->relu->inputs[1])}, ChoiceOf(node));
    }
    if (const auto found = parameters_.find(node.id); found != parameters_.end()) {
      return AddReluGradient(*found->second, node, BatchNormReluParameterGradientOp());
    }
    if (const auto found = inputs_.find(node.id); found != inputs_.end()) {
      return AddReluGradient(*found->second, node, BatchNormReluGradientOp());
    }
    Copy(node, rewriter_->MapAll(node.inputs), ChoiceOf(node));
  }

  void Copy(const Node& node, const std::vector<Tensor>& inputs, Choice choice) {
    assigner_.Copy(node, inputs, std::move(choice), rewriter_);
  }
  Tensor Add(const Node& node, Tensor input, Choice choice) {
    const Tensor made = rewriter_->Add(node, {input})[0];
    assigner_.Assign(node, std::move(choice), *rewriter_);
    return made;
  }

  // What the view of a norm's result would be made of, if it were of this tensor.
  Tensor BeforeView(const FusedNorm& norm, const Node& reader, Tensor tensor) {
    if (norm.view == nullptr) return tensor;
    Node node = *norm.view;
    node.name = absl::StrCat(reader.name, "/by_group");
    node.phase = reader.phase;
    node.forward = reader.forward;
    node.attributes = ShapeAttributes{from_.tensor(norm.norm->outputs[0]).type.shape};
    node.outputs = norm.norm->outputs;
    return Add(node, tensor, Undone(ChoiceOf(*norm.view)));
  }
  // A view of a tensor that is like the norm's result.
  Tensor AfterView(const FusedNorm& norm, const Node& last, Tensor tensor) {
    if (norm.view == nullptr) return tensor;
    Node node = *norm.view;
    node.phase = last.phase;
    node.forward = last.forward;
    node.outputs = last.outputs;
    return Add(node, tensor, ChoiceOf(*norm.view));
  }

  void AddNorm(FusedNorm* norm) {
    Node node = *norm->norm;
    std::vector<Tensor> inputs = rewriter_->MapAll(node.inputs);
    Choice choice = ChoiceOf(node);
    node.op = norm->add == nullptr    ? &BatchNormReluOp()
              : norm->relu == nullptr ? &BatchNormAddOp()
                                      : &BatchNormAddReluOp();
    if (norm->add != nullptr) {
      inputs.push_back(BeforeView(*norm, *norm->add, Map(norm->add->inputs[norm->addend])));
      AppendInput(ChoiceOf(*norm->norm), 0, 5, &choice);
    }
    Copy(node, inputs, std::move(choice));
    norm->y = Map(node.outputs[0]);
    rewriter_->Replace(norm->last().outputs[0], AfterView(*norm, norm->last(), norm->y));
  }

  // Without an addend.
  void AddReluGradient(const FusedGradient& gradient, Node node, const OpDef& op) {
    const Node& norm = *gradient.of->norm;
    const TensorId dy =
        gradient.view != nullptr ? gradient.view->outputs[0] : gradient.relu->inputs[1];
    std::vector<Tensor> inputs = {Map(dy)};
    for (size_t i = 1; i < node.inputs.size(); ++i) inputs.push_back(Map(node.inputs[i]));
    Choice choice = ChoiceOf(node);
    if (inputs.size() == 4) {
      inputs.push_back(Map(norm.inputs[3]));
      AppendInput(ChoiceOf(norm), 3, 4, &choice);
    }
    inputs.insert(inputs.begin() + 5, Map(norm.inputs[4]));
    AppendInput(ChoiceOf(norm), 4, 5, &choice);
    node.op = &op;
    Copy(node, inputs, std::move(choice));
  }

  // With one: at the place of relu_gradient, for others may read dz from there on.
  void AddSums(const FusedGradient& gradient) {
    const FusedNorm& norm = *gradient.of;
    const Node& parameter = *gradient.parameter;
    const TensorId dz = gradient.relu->outputs[0];
    std::vector<TensorId> terms = {gradient.relu->inputs[1]};
    if (gradient.sum != nullptr) terms = gradient.sum->inputs;
    std::vector<Tensor> inputs = {norm.y};
    for (size_t i = 1; i < 4; ++i) inputs.push_back(Map(parameter.inputs[i]));
    const Choice& old = ChoiceOf(parameter);
    Choice choice = old;
    for (const TensorId term : terms) {
      inputs.push_back(BeforeView(norm, *gradient.relu, Map(term)));
      AppendInput(old, 0, 4, &choice);
    }
    AppendOutputLikeInput(old, 0, &choice);
    Node node = parameter;
    node.op = &BatchNormAddReluParameterGradientOp();
    node.outputs.push_back(parameter.inputs[0]);
    Copy(node, inputs, std::move(choice));
    if (!gradient.dz_is_read || norm.view == nullptr) return;
    rewriter_->Replace(dz, AfterView(norm, *gradient.relu, Map(parameter.inputs[0])));
  }

  const Graph& from_;
  const SbpAssignment& old_;
  std::map<NodeId, FusedNorm> norms_;
  std::map<NodeId, FusedGradient> gradients_;
  // Of those without an addend, by node.
  std::map<NodeId, const FusedGradient*> views_, parameters_, inputs_;
  std::set<NodeId> gone_;
  GraphRewriter* rewriter_ = nullptr;
  Assigner assigner_;
};

}  // namespace

absl::StatusOr<FusedProgram> Fuse(const Graph& graph, const SbpAssignment& assignment) {
  return Fuser(graph, assignment).Run();
}

absl::Span<const OpDef* const> FusedOps() {
  static const OpDef* const ops[] = {
      &BatchNormAddOp(),          &BatchNormReluOp(),    &BatchNormReluParameterGradientOp(),
      &BatchNormReluGradientOp(), &BatchNormAddReluOp(), &BatchNormAddReluParameterGradientOp()};
  return ops;
}

}  // namespace sluice
