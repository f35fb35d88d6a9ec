// Patterns in which nothing moves, and nothing else reads a product:
//
//   x = matmul(a, b) + bias
//   y = gelu(x)                              x is kept where others read it, as backward does
//   dx = gelu_gradient(x, dy)                and the sum of dx over all dimensions but the last,
//                                            which is the gradient of a bias; of gelu_erf, too.
//                                            And gelu(x) again, for what reads it in backward
//   y = layer_norm(a + b)                    the sum is kept; b may be dropout(c), or cast(c), or
//                                            cast(dropout(c)), and with either cast y may be cast,
//                                            in its place or beside it
//   s = a + layer_norm_gradient(dy, ...)     and t = dropout(s), or cast(s), or dropout(cast(s));
//                                            dy may be cast(c), for layer_norm_parameter_gradient
//                                            as well, which then makes cast(y) again
//   s = a + cast(b)                          b in bf16, where no norm follows
//   s = a + matmul_input_gradient(dy, b)     and so on, where more of these are added
//   dx = layer_norm_gradient(dy, ...)        and cast(dx), where others read dx, too: of norms that
//                                            stand in the residual stream
//   m = ce_max(x), ce_sum_exp(x, m)          of rows that are whole
//
// gelu(x) is as large as x, which backward keeps anyway, and its gradient has most of its terms: to
// write it again takes less than a hundredth of a step, to keep it from forward a tenth of the
// activations of a transformer. So it is with a norm in bf16 of a stream in f32. The products that
// read it, for gradients of weights, come behind.
//
// A gradient is rounded before it is summed, as it was. In the residual stream of a transformer in
// bf16 the casts stand between products, in bf16, and the stream, in f32: with these no pass over
// it casts alone.
//
// A product that is partial is left alone: a bias would be added by every device, and gelu is not
// linear. gelu is fused in bf16 alone, for the library does not say how exact its own is, and the
// erf form has no epilogue at all (docs/cuda.md).
#include "framework/compiler/fuse_on_cards.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "framework/base/status.h"
#include "framework/compiler/assigned_graph.h"
#include "framework/graph/rewriter.h"
#include "framework/ops/card_ops.h"
#include "framework/ops/op_defs.h"

namespace sluice {
namespace {

// An input or an output of a node.
struct Operand {
  const Node* node;
  size_t index;
};

struct FusedNode {
  const OpDef* op;
  const Node*
      named;  // has the name, the signature's factors and, if there are no others, attributes
  std::vector<const Node*> nodes;
  std::vector<Operand> inputs, outputs;
  std::optional<Attributes> attributes = {};
  std::vector<const Node*> behind = {};  // nodes that move behind it, for they read what it makes
};

class Matcher : private AssignedGraph {
 public:
  Matcher(const Graph& graph, const SbpAssignment& sbp, const Grid& grid)
      : AssignedGraph(graph, sbp), grid_(grid) {}

  // By the node whose place the new one takes.
  std::map<NodeId, FusedNode> Find() {
    for (const Node& node : graph().nodes()) {
      if (!IsOnCuda(node)) continue;
      if (node.op == &AddOp()) MatchBias(node);
      if (node.op == &AddOp()) MatchNormGradient(node);
      if (node.op == &GeluOp()) MatchGelu(node);
      if (node.op == &GeluGradientOp()) {
        MatchGradientSum(node, GeluGradientSumOp(), GeluOp(), GeluGradientSumAndValueOp());
      }
      if (node.op == &GeluErfGradientOp()) {
        MatchGradientSum(node, GeluErfGradientSumOp(), GeluErfOp(), GeluErfGradientSumAndValueOp());
      }
      if (node.op == &LayerNormOp()) MatchNorm(node);
      if (node.op == &CrossEntropyMaxOp()) MatchSumExp(node);
      if (node.op == &AddOp() || node.op == &AddNOp()) MatchSumOfProducts(node);
    }
    for (const Node& node : graph().nodes()) {
      if (IsOnCuda(node) && node.op == &CastOp()) MatchCastOfSlopes(node);
    }
    for (const auto& [id, fused] : found_) Take(fused);
    for (const Node& node : graph().nodes()) {
      if (!IsOnCuda(node) || taken_.count(&node) > 0) continue;
      if (node.op == &AddOp()) MatchCastAdd(node);
      if (node.op == &LayerNormGradientOp()) MatchNormGradientCast(node);
    }
    return std::move(found_);
  }

 private:
  bool IsOnCuda(const Node& node) const { return sluice::IsOnCuda(grid_, node); }
  bool IsBf16(TensorId tensor) const { return graph().tensor(tensor).type.dtype == DType::kBF16; }
  bool IsBf16(const Node& node) const { return IsBf16(node.outputs[0]); }

  // Whether an input is a whole product of this op, read as it lies and by this node alone.
  bool ReadsProduct(const Node& node, size_t input, const OpDef& op) const {
    const TensorId tensor = node.inputs[input];
    return MakerOf(node, input).op == &op && ReadsInPlace(node, input) && IsReadOnce(tensor) &&
           sbp().produced[tensor].reduction() == Reduction::kNone &&
           ChoiceOf(node).outputs[0] == ChoiceOf(node).inputs[input];
  }

  // Whether all who read the node's first input stand behind the node, where that is then made.
  bool OthersReadLater(const Node& node) const {
    const std::vector<Reader>& all = readers(node.inputs[0]);
    return std::all_of(all.begin(), all.end(),
                       [&](const Reader& reader) { return reader.node->id >= node.id; });
  }

  void MatchBias(const Node& add) {
    const TensorType& y = graph().tensor(add.outputs[0]).type;
    for (const size_t bias : {1, 0}) {
      const Shape& shape = graph().tensor(add.inputs[bias]).type.shape;
      if (shape.rank() != 1 || shape[0] != y.shape[y.shape.rank() - 1]) continue;
      if (!ReadsProduct(add, 1 - bias, MatMulOp())) continue;
      if (!(graph().tensor(add.inputs[1 - bias]).type == y)) continue;
      const Node& product = MakerOf(add, 1 - bias);
      found_[add.id] = {&MatMulBiasOp(),
                        &product,
                        {&product, &add},
                        {{&product, 0}, {&product, 1}, {&add, bias}},
                        {{&add, 0}}};
      return;
    }
  }

  // Of a tensor and, in the order in which they are made, gradients of the inputs of products, as
  // of those of a tensor that several read: each is added to what there is by then, by the library.
  // In bf16 what there is has been rounded, as each term was.
  void MatchSumOfProducts(const Node& sum) {
    if (found_.count(sum.id) > 0 || !AreOfOneType(sum) || !KeepsLayout(sum)) return;
    if (sum.inputs.size() < 2 || !ReadsInPlace(sum, 0)) return;
    for (size_t term = 1; term < sum.inputs.size(); ++term) {
      if (!ReadsProduct(sum, term, MatMulInputGradientOp())) return;
      if (MakerOf(sum, term).id < MakerOf(sum, term - 1).id) return;
    }
    for (size_t term = 1; term < sum.inputs.size(); ++term) {
      const Node& product = MakerOf(sum, term);
      FusedNode fused = {&MatMulInputGradientAddOp(),
                         &product,
                         {&product},
                         {{&product, 0}, {&product, 1}, {&sum, term - 1}},
                         {{&product, 0}}};
      if (term + 1 == sum.inputs.size()) {
        fused.nodes.push_back(&sum);
        fused.outputs = {{&sum, 0}};
      }
      found_[product.id] = std::move(fused);
    }
  }

  // Of a product with a bias.
  void MatchGelu(const Node& gelu) {
    if (!IsBf16(gelu) || !ReadsInPlace(gelu, 0) || !KeepsLayout(gelu)) return;
    const auto biased = found_.find(MakerOf(gelu, 0).id);
    if (biased == found_.end() || biased->second.op != &MatMulBiasOp()) return;
    if (!OthersReadLater(gelu)) return;
    FusedNode fused = std::move(biased->second);
    found_.erase(biased);
    fused.op = &MatMulBiasGeluOp();
    fused.nodes.push_back(&gelu);
    fused.outputs.insert(fused.outputs.begin(), {&gelu, 0});
    if (IsReadOnce(gelu.inputs[0])) {
      fused.outputs.pop_back();
    } else {
      fused.op = &MatMulBiasGeluAuxOp();
    }
    found_[gelu.id] = std::move(fused);
  }

  // The sum is made where the gradient is: it reads no more.
  void MatchGradientSum(const Node& gradient, const OpDef& op, const OpDef& value_op,
                        const OpDef& op_with_value) {
    if (!KeepsLayout(gradient)) return;
    const Shape& shape = graph().tensor(gradient.outputs[0]).type.shape;
    for (const Reader& reader : readers(gradient.outputs[0])) {
      const Node& sum = *reader.node;
      if (sum.op != &ReduceOp() || !ReadsInPlace(sum, 0) || !IsOnCuda(sum)) continue;
      const auto& attributes = std::get<ReduceAttributes>(sum.attributes);
      if (!SumsAllButTheLast(attributes, shape)) continue;
      FusedNode fused = {&op,
                         &gradient,
                         {&gradient, &sum},
                         {{&gradient, 0}, {&gradient, 1}},
                         {{&gradient, 0}, {&sum, 0}},
                         attributes};
      if (AppendValue(gradient, value_op, &fused)) fused.op = &op_with_value;
      found_[gradient.id] = std::move(fused);
      return;
    }
  }

  // What the activation made of x in forward, if only products behind the gradient are left to read
  // it then, or such as can go there.
  bool AppendValue(const Node& gradient, const OpDef& value_op, FusedNode* fused) const {
    if (!ReadsAsMade(gradient, 0)) return false;
    for (const Reader& reader : readers(gradient.inputs[0])) {
      const Node& value = *reader.node;
      if (value.op != &value_op || value.phase != Phase::kForward || value.stage != gradient.stage)
        continue;
      if (!ReadsInPlace(value, 0) || !KeepsLayout(value)) continue;
      if (AppendValueAgain(value, gradient, fused)) return true;
    }
    return false;
  }

  // The first output of a node of forward.
  bool AppendValueAgain(const Node& value, const Node& gradient, FusedNode* fused) const {
    const TensorId y = value.outputs[0];
    if (is_kept(y)) return false;
    std::vector<const Node*> behind;
    bool any = false;
    for (const Reader& reader : readers(y)) {
      const Node& node = *reader.node;
      if (node.phase == Phase::kForward) continue;
      any = true;
      if (node.op != &MatMulWeightGradientOp() || node.stage != gradient.stage ||
          !IsReadBehind(node, gradient)) {
        return false;
      }
      if (node.id < gradient.id) behind.push_back(&node);
    }
    if (!any) return false;
    fused->outputs.push_back({&value, 0});
    fused->behind = std::move(behind);
    return true;
  }
  bool IsReadBehind(const Node& node, const Node& other) const {
    const std::vector<Reader>& all = readers(node.outputs[0]);
    return std::all_of(all.begin(), all.end(),
                       [&](const Reader& reader) { return reader.node->id > other.id; });
  }

  void MatchNorm(const Node& norm) {
    const Node& add = MakerOf(norm, 0);
    if (add.op != &AddOp() || found_.count(add.id) > 0 || !ReadsInPlace(norm, 0)) return;
    if (!AreOfOneType(add) || !KeepsLayout(add) || !OthersReadLater(norm)) return;
    FusedNode fused = {&AddLayerNormOp(),
                       &norm,
                       {&add, &norm},
                       {{&add, 0}, {&add, 1}, {&norm, 1}, {&norm, 2}},
                       {{&norm, 0}, {&norm, 1}, {&norm, 2}, {&add, 0}}};
    AddNormAttributes attributes = {std::get<NormAttributes>(norm.attributes).epsilon};
    for (const size_t term : {1, 0}) {
      if (!MatchTerm(add, term, &fused, &attributes)) continue;
      if (term == 0) std::swap(fused.inputs[0], fused.inputs[1]);
      break;
    }
    fused.attributes = attributes;
    AppendCast(norm, &fused);
    found_[norm.id] = std::move(fused);
  }

  // Whether a term of the addition is what dropout makes of a tensor, or a cast of bf16, or a cast
  // of what dropout makes in bf16, for the addition alone.
  bool MatchTerm(const Node& add, size_t term, FusedNode* fused,
                 AddNormAttributes* attributes) const {
    const Node *node = &add, *maker = nullptr;
    size_t input = term;
    for (const OpDef* const op : {&CastOp(), &DropoutOp()}) {
      if (!ReadsInPlace(*node, input) || !IsReadOnce(node->inputs[input])) break;
      const Node& made_by = MakerOf(*node, input);
      if (made_by.op != op || !KeepsLayout(made_by)) continue;
      if (op == &CastOp() && !IsBf16(made_by.inputs[0])) break;
      fused->nodes.insert(fused->nodes.begin(), &made_by);
      node = maker = &made_by;
      input = 0;
    }
    if (maker == nullptr) return false;
    fused->inputs[term] = {maker, 0};
    if (maker->op == &DropoutOp()) {
      const auto& drops = std::get<DropoutAttributes>(maker->attributes);
      attributes->rate = drops.rate, attributes->key = drops.key;
    }
    return true;
  }

  // The cast of y, in its place if nothing else reads y. No kernel makes a y of bf16 where b is
  // f32, which models do not ask for.
  void AppendCast(const Node& norm, FusedNode* fused) const {
    const Operand& b = fused->inputs[1];
    if (!IsBf16(b.node->inputs[b.index])) return;
    for (const Reader& reader : readers(norm.outputs[0])) {
      if (!IsCastToBf16(reader)) continue;
      fused->nodes.push_back(reader.node);
      if (IsReadOnce(norm.outputs[0])) {
        fused->op = &AddLayerNormCastOp();
        fused->outputs[0] = {reader.node, 0};
      } else {
        fused->op = &AddLayerNormAndCastOp();
        fused->outputs.push_back({reader.node, 0});
      }
      return;
    }
  }
  bool IsCastToBf16(const Reader& reader) const {
    return reader.node->op == &CastOp() && IsBf16(*reader.node) && ReadsInPlace(*reader.node, 0) &&
           KeepsLayout(*reader.node);
  }

  // Where classes are split, what it reads is the maximum of all shards, which is not made here.
  void MatchSumExp(const Node& max) {
    for (const Reader& reader : readers(max.outputs[0])) {
      const Node& sum = *reader.node;
      if (sum.op != &CrossEntropySumExpOp() || !ReadsInPlace(sum, 1)) continue;
      if (sum.inputs[0] != max.inputs[0] || ChoiceOf(sum).inputs[0] != ChoiceOf(max).inputs[0]) {
        continue;
      }
      found_[max.id] = {
          &CrossEntropyMaxAndSumExpOp(), &max, {&max, &sum}, {{&max, 0}}, {{&max, 0}, {&sum, 0}}};
      return;
    }
  }

  // Made where the sum was. Of what is dropped of it, or cast, the first is made there, too: it
  // reads no more.
  void MatchNormGradient(const Node& add) {
    if (!AreOfOneType(add) || !KeepsLayout(add)) return;
    for (const size_t term : {1, 0}) {
      if (!ReadsProduct(add, term, LayerNormGradientOp())) continue;
      const Node& norm = MakerOf(add, term);
      FusedNode fused = {&LayerNormGradientAddOp(), &norm, {&norm, &add}, {}, {{&add, 0}}};
      for (size_t i = 0; i < norm.inputs.size(); ++i) fused.inputs.push_back({&norm, i});
      fused.inputs.push_back({&add, 1 - term});
      if (!AppendDropout(add, std::get<NormAttributes>(norm.attributes).epsilon, &fused)) {
        AppendCastOfSum(add, &fused);
      }
      found_[add.id] = std::move(fused);
      sum_of_[norm.id] = add.id;
      return;
    }
  }

  // The dropout of a sum, which may be cast before for the dropout alone.
  bool AppendDropout(const Node& add, double epsilon, FusedNode* fused) {
    for (const Reader& reader : readers(add.outputs[0])) {
      const Node *cast = nullptr, *dropout = reader.node;
      if (!ReadsInPlace(*dropout, reader.input) || !KeepsLayout(*dropout)) continue;
      if (dropout->op == &CastOp()) {
        cast = dropout;
        if (!IsBf16(*cast) || !IsReadOnce(cast->outputs[0])) continue;
        dropout = readers(cast->outputs[0])[0].node;
        if (!ReadsInPlace(*dropout, 0) || !KeepsLayout(*dropout)) continue;
      }
      if (dropout->op != &DropoutOp()) continue;
      const auto& drops = std::get<DropoutAttributes>(dropout->attributes);
      fused->op =
          cast == nullptr ? &LayerNormGradientAddDropoutOp() : &LayerNormGradientAddCastDropoutOp();
      fused->attributes = AddNormAttributes{epsilon, drops.rate, drops.key};
      if (cast != nullptr) fused->nodes.push_back(cast);
      fused->nodes.push_back(dropout);
      fused->outputs.push_back({dropout, 0});
      return true;
    }
    return false;
  }

  void AppendCastOfSum(const Node& add, FusedNode* fused) const {
    for (const Reader& reader : readers(add.outputs[0])) {
      if (!IsCastToBf16(reader)) continue;
      fused->op = &LayerNormGradientAddCastOp();
      fused->nodes.push_back(reader.node);
      fused->outputs.push_back({reader.node, 0});
      return;
    }
  }

  // A cast of bf16 that is dy of norms' gradients and nothing else: they read what it reads. Where
  // one of them is no sum's the cast is made anyhow, and stays.
  void MatchCastOfSlopes(const Node& cast) {
    const TensorId dy = cast.outputs[0];
    if (!IsBf16(cast.inputs[0]) || !KeepsLayout(cast) || is_kept(dy)) return;
    const auto reads = [&](const Reader& reader) {
      return reader.input == 0 && ReadsInPlace(*reader.node, 0) && IsOnCuda(*reader.node) &&
             (reader.node->op == &LayerNormParameterGradientOp() ||
              sum_of_.count(reader.node->id) > 0);
    };
    const std::vector<Reader>& all = readers(dy);
    if (!std::all_of(all.begin(), all.end(), reads)) return;
    for (const Reader& reader : all) {
      const Node& node = *reader.node;
      const auto sum = sum_of_.find(node.id);
      FusedNode& fused = found_[sum != sum_of_.end() ? sum->second : node.id];
      if (sum == sum_of_.end()) {
        fused = {&CastLayerNormParameterGradientOp(), &node, {&node}, {}, {}};
        for (size_t i = 0; i < node.inputs.size(); ++i) fused.inputs.push_back({&node, i});
        for (size_t i = 0; i < node.outputs.size(); ++i) fused.outputs.push_back({&node, i});
        AppendNormAgain(node, &fused);
      }
      fused.inputs[0] = {&cast, 0};
      if (&reader == &all.front()) fused.nodes.push_back(&cast);
    }
  }

  // The cast of what the norm made, of the statistics that its gradient reads.
  void AppendNormAgain(const Node& gradient, FusedNode* fused) const {
    const Node& norm = MakerOf(gradient, 2);
    if (norm.op != &LayerNormOp() || norm.phase != Phase::kForward) return;
    for (const size_t input : {1, 2, 3}) {
      if (!ReadsAsMade(gradient, input)) return;
    }
    for (const size_t input : {0, 1, 2}) {
      if (!ReadsAsMade(norm, input)) return;
    }
    if (ChoiceOf(norm).inputs[0] != ChoiceOf(norm).outputs[0]) return;
    for (const Reader& reader : readers(norm.outputs[0])) {
      if (!IsCastToBf16(reader) || !AppendValueAgain(*reader.node, gradient, fused)) continue;
      fused->op = &CastLayerNormParameterGradientAndValueOp();
      fused->inputs.insert(fused->inputs.end(), {{&norm, 1}, {&norm, 2}});
      return;
    }
  }

  void Take(const FusedNode& fused) { taken_.insert(fused.nodes.begin(), fused.nodes.end()); }

  // What nothing else has taken.
  void MatchCastAdd(const Node& add) {
    if (!AreOfOneType(add) || !KeepsLayout(add)) return;
    for (const size_t term : {1, 0}) {
      const Node& cast = MakerOf(add, term);
      if (cast.op != &CastOp() || taken_.count(&cast) > 0 || !IsBf16(cast.inputs[0])) continue;
      if (!ReadsInPlace(add, term) || !IsReadOnce(add.inputs[term]) || !KeepsLayout(cast)) continue;
      FusedNode fused = {&CastAddOp(),  &add,
                         {&cast, &add}, {{&add, 1 - term}, {&cast, 0}},
                         {{&add, 0}},   cast.attributes};
      Take(fused);
      found_[add.id] = std::move(fused);
      return;
    }
  }

  // The first cast of it is made where it is: it reads no more.
  void MatchNormGradientCast(const Node& gradient) {
    for (const Reader& reader : readers(gradient.outputs[0])) {
      if (!IsCastToBf16(reader) || taken_.count(reader.node) > 0) continue;
      FusedNode fused = {&LayerNormGradientCastOp(), &gradient, {&gradient, reader.node}, {}, {}};
      for (size_t i = 0; i < gradient.inputs.size(); ++i) fused.inputs.push_back({&gradient, i});
      fused.outputs = {{&gradient, 0}, {reader.node, 0}};
      Take(fused);
      found_[gradient.id] = std::move(fused);
      return;
    }
  }

  const Grid& grid_;
  std::map<NodeId, FusedNode> found_;
  std::set<const Node*> taken_;
  std::map<NodeId, NodeId> sum_of_;  // by norm's gradients that are fused with one
};

class Fuser {
 public:
  Fuser(const Graph& graph, const SbpAssignment& assignment, const Grid& grid)
      : from_(graph),
        old_(assignment),
        found_(Matcher(graph, assignment, grid).Find()),
        assigner_(assignment) {
    for (const auto& [id, fused] : found_) {
      for (const Node* node : fused.nodes) gone_.insert(node->id);
      for (const Node* node : fused.behind) gone_.insert(node->id);
    }
  }

  absl::StatusOr<FusedProgram> Run() {
    ASSIGN_OR_RETURN(std::unique_ptr<Graph> graph,
                     RewriteGraph(from_, [&](const Node& node, GraphRewriter* rewriter) {
                       Visit(node, rewriter);
                     }));
    return FusedProgram{std::move(graph), assigner_.Take()};
  }

 private:
  const Choice& ChoiceOf(const Node& node) const { return old_.choices[node.id]; }

  void Visit(const Node& node, GraphRewriter* rewriter) {
    const auto found = found_.find(node.id);
    if (found != found_.end()) return AddFused(found->second, rewriter);
    if (gone_.count(node.id) > 0) return;
    assigner_.Copy(node, rewriter->MapAll(node.inputs), ChoiceOf(node), rewriter);
  }

  void AddFused(const FusedNode& fused, GraphRewriter* rewriter) {
    Node node = *fused.named;
    node.op = fused.op;
    if (fused.attributes.has_value()) node.attributes = *fused.attributes;
    node.inputs.clear();
    node.outputs.clear();
    Choice choice = ChoiceOf(*fused.named);
    choice.inputs.clear();
    choice.outputs.clear();
    choice.nanoseconds = 0;
    for (Signature& signature : choice.signatures) {
      signature.inputs.clear();
      signature.outputs.clear();
    }
    for (const Operand& input : fused.inputs) {
      AppendInput(ChoiceOf(*input.node), input.index, node.inputs.size(), &choice);
      node.inputs.push_back(input.node->inputs[input.index]);
    }
    for (const Operand& output : fused.outputs) {
      AppendOutput(ChoiceOf(*output.node), output.index, &choice);
      node.outputs.push_back(output.node->outputs[output.index]);
    }
    for (const Node* step : fused.nodes) choice.nanoseconds += ChoiceOf(*step).nanoseconds;
    assigner_.Copy(node, rewriter->MapAll(node.inputs), std::move(choice), rewriter);
    for (const Node* moved : fused.behind) {
      assigner_.Copy(*moved, rewriter->MapAll(moved->inputs), ChoiceOf(*moved), rewriter);
    }
  }

  const Graph& from_;
  const SbpAssignment& old_;
  const std::map<NodeId, FusedNode> found_;
  std::set<NodeId> gone_;
  Assigner assigner_;
};

}  // namespace

absl::StatusOr<FusedProgram> FuseOnCards(const Graph& graph, const SbpAssignment& assignment,
                                         const Grid& grid) {
  return Fuser(graph, assignment, grid).Run();
}

}  // namespace sluice
