#include "bench/kernel_grids.h"

#include <utility>

#include "framework/attributes/attributes.h"
#include "framework/base/status.h"
#include "framework/ops/all_ops.h"

namespace sluice {
namespace {

using At = absl::Span<const int64_t>;
using Sample = absl::StatusOr<KernelSample>;

Sample OfOp(const OpDef& op, At at) {
  const OpCase call = op.timing.call(at);
  ASSIGN_OR_RETURN(const std::vector<TensorType> outputs,
                   op.infer({call.attributes, call.inputs, {}}));
  KernelSample sample;
  sample.spec.op = op.name;
  sample.spec.attributes = PrintAttributes(call.attributes);
  for (const TensorType& type : call.inputs) {
    sample.spec.inputs.push_back(Shard::Whole(type.dtype, type.shape));
  }
  for (const TensorType& type : outputs) {
    sample.spec.outputs.push_back(Shard::Whole(type.dtype, type.shape));
  }
  const Cost cost = op.cost({call.attributes, call.inputs, outputs});
  sample.sizes.assign(cost.sizes.begin(), cost.sizes.end());
  sample.ids = static_cast<int64_t>(call.high) + 1;
  return sample;
}

// Instructions that are no op: what the compiler says of them (compiler/lower_boxing.cc).
KernelSample OfBox(const std::string& op, std::vector<Shape> inputs, Shape output) {
  KernelSample sample;
  sample.spec.op = op;
  for (const Shape& shape : inputs) {
    sample.spec.inputs.push_back(Shard::Whole(DType::kF32, shape));
  }
  sample.spec.outputs.push_back(Shard::Whole(DType::kF32, output));
  return sample;
}
// Bytes of the result, bytes of a contiguous run: half the rows of a matrix are copied into
// another.
Sample BoxCopy(At at) {
  const int64_t row = at[1] / 4, rows = at[0] / at[1];
  KernelSample sample = OfBox("fold", {{rows, 2 * row}}, {rows, row});
  FoldRegion region;
  region.extent = {rows, row};
  region.sources = region.fold = {0};
  region.source_offsets = {0};
  region.source_strides = {{2 * row, 1}};
  region.strides = {row, 1};
  sample.spec.regions = {region};
  sample.sizes = {2 * at[0], at[1]};
  return sample;
}
// Bytes of the result, and how many are summed up, a power of two.
Sample BoxFold(At at) {
  const int64_t elements = at[0] / 4;
  KernelSample sample = OfBox("fold", std::vector<Shape>(at[1], Shape{elements}), {elements});
  sample.spec.reduction = Reduction::kSum;
  FoldRegion region;
  region.extent = {elements};
  for (int source = 0; source < at[1]; ++source) {
    region.sources.push_back(source);
    region.fold.push_back(source);
    if (source > 0) region.fold.push_back(-1);
    region.source_offsets.push_back(0);
    region.source_strides.push_back({1});
  }
  region.strides = {1};
  sample.spec.regions = {region};
  sample.sizes = {at[0] * (at[1] + 1), at[1]};
  return sample;
}
Sample Accumulate(At at) {
  KernelSample sample = OfBox("accumulate", {{at[0]}}, {at[0]});
  sample.spec.reduction = Reduction::kSum;
  sample.sizes = {3 * 4 * at[0]};
  return sample;
}

}  // namespace

std::vector<KernelGrid> KernelGrids() {
  std::vector<KernelGrid> grids;
  for (const OpDef* op : AllOps()) {
    if (op->timing.call == nullptr) continue;
    grids.push_back({op->name, op->timing.axes, [op](At at) { return OfOp(*op, at); }});
  }
  const std::vector<int64_t> bytes = {4096, 65536, 1048576, 4194304};
  grids.push_back({"fold", {bytes, {64, 128, 256, 512, 1024, 4096}}, BoxCopy, /*may_fall=*/1});
  grids.push_back({"fold_many", {bytes, {2, 4}}, BoxFold});
  grids.push_back({"accumulate", {{256, 4096, 32768, 262144, 2097152}}, Accumulate});
  return grids;
}

std::vector<std::vector<int64_t>> PointsOf(const std::vector<std::vector<int64_t>>& axes) {
  std::vector<std::vector<int64_t>> points = {{}};
  for (const std::vector<int64_t>& axis : axes) {
    std::vector<std::vector<int64_t>> longer;
    for (const std::vector<int64_t>& point : points) {
      for (int64_t size : axis) {
        longer.push_back(point);
        longer.back().push_back(size);
      }
    }
    points = std::move(longer);
  }
  return points;
}

}  // namespace sluice
