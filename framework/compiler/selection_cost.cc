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

int64_t SelectionCost::OverTime(const TensorType& type, const GridSbp& sbp) const {
  const int64_t bytes =
      2 * grid_.LargestShardShape(sbp, type.shape).NumElements() * SizeOf(type.dtype);
  return grid_.micro_batches() * machine_.ComputeNanoseconds(0, bytes, false);
}

int64_t SelectionCost::Boxing(const TensorType& type, const GridSbp& from, int64_t from_stage,
                              const GridSbp& to, int64_t to_stage) const {
  if (from == to && from_stage == to_stage) return 0;
  if (to.packed.is_split()) {
    const GridSbp pieces = to.Pieces();
    const int64_t brought = Boxing(type, from, from_stage, pieces, to_stage);
    return brought < 0 ? -1 : brought + OverTime(type, pieces);
  }
  if (to.time != from.time && to.time.is_partial()) return -1;
  GridSbp at = from;
  int32_t stage = from_stage;
  int64_t nanoseconds = 0;
  const auto over_space = [&](const NdSbp& wanted, int32_t wanted_stage) {
    if (at.space == wanted && stage == wanted_stage) return true;
    const auto boxing =
        planner_->Find({grid_.stage(stage), at.space}, {grid_.stage(wanted_stage), wanted},
                       grid_.FiringShape(at, type.shape), type.dtype);
    if (!boxing.ok()) return false;
    nanoseconds += grid_.Firings(at) * (*boxing)->nanoseconds;
    at.space = wanted, stage = wanted_stage;
    return true;
  };
  // What is split over time lies in the tensor's order where no axis of space splits it as well.
  const auto whole_along = [&](const Sbp& split) {
    NdSbp space = at.space;
    for (Sbp& entry : space) {
      if (entry == split) entry = Sbp::B();
    }
    return space;
  };
  if (at.time != to.time) {
    if (at.time.is_split() && !over_space(whole_along(at.time), stage)) return -1;
    if (!at.time.is_broadcast()) nanoseconds += OverTime(type, at), at.time = Sbp::B();
    if (to.time.is_split()) {
      if (!over_space(whole_along(to.time), stage)) return -1;
      at.time = to.time, nanoseconds += OverTime(type, at);
    }
  }
  return over_space(to.space, to_stage) ? nanoseconds : -1;
}

}  // namespace sluice
