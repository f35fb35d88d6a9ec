#include "framework/passes/recompute.h"

#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/graph/rewriter.h"

namespace sluice {
namespace {

// The nodes of a region again, each once and only if backward asks for it, in front of the first
// backward node that does.
class Again {
 public:
  Again(const Graph& from, RecomputedRegions regions)
      : from_(from), regions_(regions), of_parameters_(from.num_tensors()) {
    for (const Node& node : from.nodes()) {
      bool all = node.op != &InputOp() && !(node.inputs.empty() && node.op != &VariableOp());
      for (TensorId input : node.inputs) all = all && of_parameters_[input];
      for (TensorId output : node.outputs) of_parameters_[output] = all;
    }
  }

  // The region whose activation the tensor is; -1: none. What is made of parameters alone (a weight
  // in another type) is made once a step and read by every micro-batch: no activation, and kept.
  int32_t RegionOf(TensorId tensor) const {
    return of_parameters_[tensor] ? -1 : RegionOf(from_.node(from_.tensor(tensor).producer));
  }

  // Of the region of the tensor's producer; what other regions made is read as it is.
  Tensor Make(TensorId old, GraphRewriter* rewriter) {
    if (const auto found = made_.find(old); found != made_.end()) return found->second;
    const Node& node = from_.node(from_.tensor(old).producer);
    std::vector<Tensor> inputs;
    for (TensorId input : node.inputs) {
      const bool same = RegionOf(input) == RegionOf(node);
      inputs.push_back(same ? Make(input, rewriter) : rewriter->Map(input));
    }
    const std::vector<Tensor> outputs = rewriter->Add(MadeAgain(node), inputs);
    for (size_t i = 0; i < outputs.size(); ++i) made_[node.outputs[i]] = outputs[i];
    return made_[old];
  }

 private:
  int32_t RegionOf(const Node& node) const {
    return regions_ == RecomputedRegions::kBlocks ? node.block : node.region;
  }

  const Graph& from_;
  const RecomputedRegions regions_;
  std::vector<bool> of_parameters_;  // by tensor
  std::map<TensorId, Tensor> made_;  // by old tensor
};

}  // namespace

Node MadeAgain(const Node& node) {
  Node again = node;
  again.name = absl::StrCat(node.name, "/again");
  again.phase = Phase::kBackward;
  again.forward = node.id;
  again.block = again.region = -1;
  return again;
}

GraphPass Recompute(RecomputedRegions regions) {
  return {"recompute", [regions](const Graph& from) {
            Again again(from, regions);
            return RewriteGraph(from, [&](const Node& node, GraphRewriter* rewriter) {
              if (node.phase != Phase::kBackward) return rewriter->Copy(node);
              std::vector<Tensor> inputs;
              for (TensorId input : node.inputs) {
                const bool region = again.RegionOf(input) >= 0;
                inputs.push_back(region ? again.Make(input, rewriter) : rewriter->Map(input));
              }
              rewriter->Copy(node, inputs);
            });
          }};
}

}  // namespace sluice
