#include "framework/compiler/grid.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "framework/base/log.h"

namespace sluice {

Grid::Grid(const Mesh& mesh, int64_t micro_batches, int64_t chunks) : mesh_(mesh), chunks_(chunks) {
  axes_.push_back({"micro", micro_batches, true});
  for (const MeshAxis& axis : mesh.axes()) {
    if (axis.kind == AxisKind::kSpace) axes_.push_back({axis.name, axis.size, false});
  }
  for (int32_t d = 0; d < mesh.num_devices(); ++d) index_of_[mesh.devices()[d]] = d;
  group_of_.resize(mesh.num_devices());
  for (int64_t s = 0; s < mesh.num_stages(); ++s) {
    groups_.push_back(mesh.Stage(s));
    std::vector<int32_t> indices;
    for (DeviceId id : groups_.back().devices()) {
      indices.push_back(FindDevice(id));
      group_of_[indices.back()] = static_cast<int32_t>(s);
    }
    device_index_.push_back(std::move(indices));
  }
}

int32_t Grid::FindDevice(DeviceId id) const {
  const auto found = index_of_.find(id);
  SLUICE_CHECK(found != index_of_.end()) << "no device " << sluice::ToString(id) << " in the mesh";
  return found->second;
}

Shape Grid::FiringShape(const GridSbp& sbp, const Shape& shape) const {
  Shape firing = shape;
  if (sbp.time.is_split()) firing[sbp.time.dim] /= micro_batches();
  return firing;
}

Shard Grid::ShardAt(const GridSbp& sbp, const TensorType& type, int64_t stage,
                    int64_t device) const {
  const Mesh& mesh = this->stage(stage);
  if (sbp.packed.is_split()) {
    // Counted in the order in which it is held: what stands before is as many pieces of others.
    Shard shard = ShardAt(sbp.Pieces(), type, stage, device);
    const int dim = sbp.packed.dim;
    shard.local[dim] *= micro_batches();
    shard.offset[dim] *= micro_batches();
    shard.stride_per_micro[dim] = 0;
    return shard;
  }
  const Shape firing = FiringShape(sbp, type.shape);
  const Placement placement = PlacementAt(mesh, sbp.space, firing, mesh.Coordinates(device));
  Shard shard = Shard::Whole(type.dtype, type.shape);
  shard.local = ShapeOf(placement.box);
  for (int d = 0; d < firing.rank(); ++d) shard.offset[d] = placement.box[d].begin;
  if (sbp.time.is_split()) shard.stride_per_micro[sbp.time.dim] = firing[sbp.time.dim];
  shard.partial = sbp.reduction();
  return shard;
}

Shape Grid::LargestShardShape(const GridSbp& sbp, const Shape& shape) const {
  const GridSbp pieces = sbp.Pieces();
  Shape local = shape;
  for (size_t a = 0; a < axes_.size(); ++a) {
    if (!pieces[a].is_split()) continue;
    int64_t& extent = local[pieces[a].dim];
    extent = (extent + axes_[a].shards - 1) / axes_[a].shards;
  }
  if (sbp.packed.is_split()) local[sbp.packed.dim] *= micro_batches();
  return local;
}

std::string Grid::ToString(const GridSbp& sbp) const {
  std::string text;
  for (size_t a = 0; a < axes_.size(); ++a) {
    if (axes_[a].shards == 1) continue;
    const bool packed = axes_[a].time && sbp.packed.is_split();
    absl::StrAppend(&text, text.empty() ? "" : " ", axes_[a].name, ":",
                    packed ? absl::StrCat("pack(", sbp.packed.dim, ")") : sluice::ToString(sbp[a]));
  }
  return text.empty() ? "B" : text;
}

}  // namespace sluice
