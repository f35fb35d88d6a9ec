// Where the shards of a tensor lie in space and time.
#ifndef SLUICE_FRAMEWORK_COMPILER_GRID_H_
#define SLUICE_FRAMEWORK_COMPILER_GRID_H_

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/graph/op_def.h"
#include "framework/sbp/mesh.h"
#include "framework/sbp/nd_sbp.h"
#include "framework/tensor/shard.h"

namespace sluice {

struct GridAxis {
  std::string name;
  int64_t shards = 1;
  bool time = false;
};

// How a tensor lies on the axes of a grid: over time, the micro-batches of a step, and over the
// space axes of the mesh, in their order. Pipeline stages are no axis of it.
struct GridSbp {
  Sbp time;
  NdSbp space;
  // S(d): whole over time, but along d in the order in which the devices hold it, each its own
  // pieces of all micro-batches, one behind the other. `space` splits d then. B: in the order of
  // the tensor, in which the pieces of one device lie apart.
  Sbp packed = Sbp::B();

  // Of what is packed: the layout of its pieces.
  GridSbp Pieces() const { return packed.is_split() ? GridSbp{packed, space} : *this; }

  // By axis, as Grid::axes() has them: time first.
  size_t size() const { return 1 + space.size(); }
  Sbp& operator[](size_t axis) { return axis == 0 ? time : space[axis - 1]; }
  const Sbp& operator[](size_t axis) const { return axis == 0 ? time : space[axis - 1]; }
  // kNone where it is partial on no axis.
  Reduction reduction() const { return time.is_partial() ? time.reduction : ReductionOf(space); }
  friend bool operator==(const GridSbp&, const GridSbp&) = default;
  friend bool operator<(const GridSbp& a, const GridSbp& b) {
    return std::tie(a.time, a.space, a.packed) < std::tie(b.time, b.space, b.packed);
  }
};

class Grid {
 public:
  // The model has `chunks` stages on each device group of the mesh's axis of stages.
  Grid(const Mesh& mesh, int64_t micro_batches, int64_t chunks = 1);

  int64_t micro_batches() const { return axes_[0].shards; }
  int64_t num_stages() const { return chunks_ * num_groups(); }
  // Stage s stands on device group s % num_groups(), of the mesh with space axes only.
  int64_t num_groups() const { return static_cast<int64_t>(groups_.size()); }
  const std::vector<GridAxis>& axes() const { return axes_; }
  const Mesh& mesh() const { return mesh_; }
  const Mesh& stage(int64_t i) const { return groups_[i % num_groups()]; }
  // Index into mesh().devices() of the i-th device of a stage.
  int32_t DeviceIndex(int64_t stage, int64_t i) const {
    return device_index_[stage % num_groups()][i];
  }
  int32_t FindDevice(DeviceId id) const;
  int32_t GroupOf(int32_t device) const { return group_of_[device]; }  // by index

  GridSbp Broadcast() const { return {Sbp::B(), NdSbp(axes_.size() - 1)}; }
  // How many times a step a tensor of this layout is made: micro_batches unless B over time.
  int64_t Firings(const GridSbp& sbp) const {
    return sbp.time.is_broadcast() ? 1 : axes_[0].shards;
  }
  // The logical tensor of one firing: the dimension split over time is cut.
  Shape FiringShape(const GridSbp& sbp, const Shape& shape) const;
  Shard ShardAt(const GridSbp& sbp, const TensorType& type, int64_t stage, int64_t device) const;
  // Extents of the largest shard.
  Shape LargestShardShape(const GridSbp& sbp, const Shape& shape) const;
  // Annotations on the axes of this grid, "micro:B data:S0"; what is packed along dimension 0 by
  // position is "micro:pack(0) data:S0". Axes of one shard are left out.
  std::string ToString(const GridSbp& sbp) const;

 private:
  Mesh mesh_;
  std::vector<GridAxis> axes_;
  int64_t chunks_ = 1;
  std::vector<Mesh> groups_;
  std::vector<std::vector<int32_t>> device_index_;
  std::map<DeviceId, int32_t> index_of_;
  std::vector<int32_t> group_of_;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMPILER_GRID_H_
