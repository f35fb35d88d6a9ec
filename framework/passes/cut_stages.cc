#include "framework/passes/cut_stages.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/graph/rewriter.h"
#include "framework/ops/ops.h"

namespace sluice {
namespace {

int32_t StageOf(const Graph& graph, TensorId tensor) {
  return graph.node(graph.tensor(tensor).producer).stage;
}

// The blocks' stages first, and what stands after a block with it; nothing else has one yet.
absl::StatusOr<std::unique_ptr<Graph>> GiveStages(const Graph& from, int64_t stages) {
  int64_t blocks = 0;
  for (const Node& node : from.nodes()) blocks = std::max<int64_t>(blocks, node.block + 1);
  if (blocks > 0 && stages > blocks) {
    return absl::InvalidArgumentError(absl::StrCat(
        "mesh: expected at most one pipeline stage a block, ", blocks, ", got ", stages));
  }
  std::vector<int32_t> stage(from.nodes().size(), -1);
  for (const Node& node : from.nodes()) {
    int32_t& at = stage[node.id];
    if (blocks == 0) at = node.stage;
    if (blocks == 0 || node.phase != Phase::kForward) continue;
    if (node.block >= 0) at = static_cast<int32_t>(node.block * stages / blocks);
    for (TensorId input : node.inputs) {
      if (node.block < 0) at = std::max(at, stage[from.tensor(input).producer]);
    }
  }
  // Stages stand still while the verifier wants them equal to their forward's; both are copied.
  std::unique_ptr<Graph> graph = from.Copy();
  for (size_t id = 0; id < stage.size(); ++id) {
    graph->mutable_node(static_cast<NodeId>(id)).stage = stage[id];
  }
  graph->SettleStages();
  return graph;
}

// Then nothing crosses stages, and there is nothing to regroup.
bool StandsOnOneStage(const Graph& graph) {
  return std::all_of(graph.nodes().begin(), graph.nodes().end(),
                     [&](const Node& node) { return node.stage == graph.nodes().front().stage; });
}

class Regrouper {
 public:
  void Visit(const Node& node, GraphRewriter* rewriter) {
    if (node.op->sum && node.phase != Phase::kForward) return CopySum(node, rewriter);
    std::vector<Tensor> inputs = rewriter->MapAll(node.inputs);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Node& producer =
          rewriter->from().node(rewriter->from().tensor(node.inputs[i]).producer);
      const bool constant = producer.op->infer != nullptr && producer.inputs.empty();
      if (constant && producer.phase == Phase::kUpdate && producer.stage != node.stage) {
        inputs[i] = ConstantOn(node.stage, producer, rewriter);
      }
    }
    rewriter->Copy(node, inputs);
  }

 private:
  Tensor ConstantOn(int32_t stage, const Node& constant, GraphRewriter* rewriter) {
    Tensor& made = constants_[{constant.id, stage}];
    if (made) return made;
    Node copy = constant;
    copy.name = absl::StrCat(constant.name, "/stage", stage);
    copy.stage = stage;
    return made = rewriter->Add(copy, {})[0];
  }

  void CopySum(const Node& node, GraphRewriter* rewriter) {
    std::vector<std::pair<int32_t, std::vector<Tensor>>> groups;  // by stage, as they appear
    for (TensorId term : node.inputs) {
      const int32_t stage = StageOf(rewriter->from(), term);
      const auto group = std::find_if(groups.begin(), groups.end(),
                                      [&](const auto& entry) { return entry.first == stage; });
      if (group == groups.end()) {
        groups.push_back({stage, {rewriter->Map(term)}});
      } else {
        group->second.push_back(rewriter->Map(term));
      }
    }
    if (groups.size() == 1 && groups[0].first != node.stage) {
      Node there = node;  // one tensor crosses instead of all terms
      there.stage = groups[0].first;
      there.forward = -1;
      return rewriter->Copy(there);
    }
    if (groups.size() == 1 || groups.size() == node.inputs.size()) return rewriter->Copy(node);
    std::vector<Tensor> sums;
    for (const auto& [stage, terms] : groups) {
      rewriter->Enter(node, absl::StrCat("stage", stage));
      Graph::Context there = rewriter->to()->context();
      if (stage != node.stage) there.forward = -1;
      there.stage = stage;
      rewriter->to()->set_context(there);
      sums.push_back(AddN(terms));
    }
    rewriter->Copy(node, sums);
  }

  std::map<std::pair<NodeId, int32_t>, Tensor> constants_;
};

}  // namespace

GraphPass CutStages(int64_t stages) {
  return {"cut_stages", [stages](const Graph& from) -> absl::StatusOr<std::unique_ptr<Graph>> {
            ASSIGN_OR_RETURN(std::unique_ptr<Graph> cut, GiveStages(from, stages));
            if (StandsOnOneStage(*cut)) return cut;
            Regrouper regrouper;
            return RewriteGraph(*cut, [&](const Node& node, GraphRewriter* rewriter) {
              regrouper.Visit(node, rewriter);
            });
          }};
}

}  // namespace sluice
