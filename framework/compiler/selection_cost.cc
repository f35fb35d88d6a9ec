#include "framework/compiler/selection_cost.h"

#include <algorithm>

namespace sluice {

int64_t SelectionCost::Compute(const Graph& graph, const Node& node,
                               const std::vector<GridSbp>& inputs,
                               const std::vector<GridSbp>& outputs) const {
  std::vector<TensorType> in, out;
  int64_t firings = 1;
  bool bf16 = false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const TensorType& type = graph.tensor(node.inputs[i]).type;
    in.push_back({type.dtype, grid_.LargestShardShape(inputs[i], type.shape)});
    firings = std::max(firings, grid_.Firings(inputs[i]));
    bf16 |= type.dtype == DType::kBF16;
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const TensorType& type = graph.tensor(node.outputs[i]).type;
    out.push_back({type.dtype, grid_.LargestShardShape(outputs[i], type.shape)});
    firings = std::max(firings, grid_.Firings(outputs[i]));
  }
  if (node.op->view) return 0;
  const Cost cost = node.op->cost({node.attributes, in, out});
  return firings *
         machine_.KernelNanoseconds(node.op->name, cost.sizes.dims(), cost.flops, cost.bytes, bf16);
}

int64_t SelectionCost::Boxing(const TensorType& type, const GridSbp& from, int64_t from_stage,
                              const GridSbp& to, int64_t to_stage) const {
  if (from == to && from_stage == to_stage) return 0;
  GridSbp at = from;
  int64_t nanoseconds = 0;
  const auto pass = [&](const GridSbp& sbp) {  // read and write a shard once
    const int64_t bytes =
        2 * grid_.LargestShardShape(sbp, type.shape).NumElements() * SizeOf(type.dtype);
    return grid_.micro_batches() * machine_.ComputeNanoseconds(0, bytes, false);
  };
  if (at.time != to.time) {
    if (to.time.is_partial()) return -1;
    if (!at.time.is_broadcast()) nanoseconds += pass(at), at.time = Sbp::B();
    if (to.time.is_split()) at.time = to.time, nanoseconds += pass(at);
  }
  const NdSbp space = at.space, wanted = to.space;
  if (space == wanted && from_stage == to_stage) return nanoseconds;
  const auto boxing =
      planner_->Find({grid_.stage(from_stage), space}, {grid_.stage(to_stage), wanted},
                     grid_.FiringShape(at, type.shape), type.dtype);
  if (!boxing.ok()) return -1;
  return nanoseconds + grid_.Firings(at) * (*boxing)->nanoseconds;
}

}  // namespace sluice
