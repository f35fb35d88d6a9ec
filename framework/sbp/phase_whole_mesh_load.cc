// Loads of phases between whole meshes: linear in the devices of the mesh, not in their pairs.
#include <algorithm>
#include <map>

#include "framework/sbp/phase_group.h"
#include "framework/sbp/phase_price.h"

namespace sluice {
namespace {

// Device i of the one mesh to device i of the other.
PhaseLoad CopyLoad(const BoxingPhase& phase, const Shape& shape, const Machine& machine) {
  PhaseLoad load;
  PhaseStepLoad step;
  step.messages = 1;
  const Mesh &here = phase.from.mesh, &there = phase.to.mesh;
  const auto link = [&](int64_t i) {
    return machine.LinkBetween(here.devices()[i], there.devices()[i]);
  };
  for (int64_t i = 0; i < there.num_devices(); ++i) {
    step.links.far = std::max(step.links.far, link(i));
  }
  for (int64_t i = 0; i < there.num_devices(); ++i) {
    const int64_t volume =
        Volume(PlacementAt(there, phase.to.sbp, shape, there.Coordinates(i)).box);
    const bool own = here.devices()[i] == there.devices()[i];
    const bool far = link(i) == step.links.far && link(i) != LinkKind::kProcess;
    if (!far) step.links.near = std::max(step.links.near, link(i));
    int64_t& port = own ? step.local : far ? step.far : step.near;
    port = std::max(port, volume);
    if (!own) (far ? load.far : load.near) += volume;
  }
  step.far_messages = step.far > 0 ? 1 : 0;
  load.steps = {step};
  return load;
}

// Of kGeneral on one mesh: the slowest link over which a device may read. Along an axis that does
// not change it reads its own place alone, unless an axis outside it moves the same dimension.
LinkKind SlowestRead(const BoxingPhase& phase, const std::vector<bool>& kept,
                     const MeshNodes& nodes) {
  const NdSbp &from = phase.from.sbp, &to = phase.to.sbp;
  std::vector<bool> moves(from.size());
  LinkKind slowest = LinkKind::kProcess;
  for (size_t a = 0; a < from.size(); ++a) {
    moves[a] = from[a] != to[a] || (from[a].is_partial() && !kept[a]);
    for (size_t outer = 0; outer < a && from[a].is_split(); ++outer) {
      moves[a] = moves[a] || (moves[outer] && (from[outer] == from[a] || to[outer] == from[a]));
    }
    if (moves[a]) slowest = std::max(slowest, nodes.axes[a].links.far);
  }
  return slowest;
}

// Where the shards of a layout that are not empty begin, by dimension.
std::vector<std::vector<int64_t>> Begins(const Layout& layout, const Shape& shape) {
  std::vector<std::vector<int64_t>> begins;
  for (int d = 0; d < shape.rank(); ++d) {
    std::vector<Range> pieces = {{0, shape[d]}};
    for (size_t a = 0; a < layout.sbp.size(); ++a) {
      if (!(layout.sbp[a] == Sbp::S(d))) continue;
      std::vector<Range> cut;
      const int64_t size = layout.mesh.axes()[a].size;
      for (const Range& piece : pieces) {
        for (int64_t i = 0; i < size; ++i) cut.push_back(Cut(piece, size, i));
      }
      pieces = std::move(cut);
    }
    begins.emplace_back();
    for (const Range& piece : pieces) {
      if (piece.size() > 0) begins.back().push_back(piece.begin);
    }
  }
  return begins;
}

// How many boxes of a grid meet a box that is not empty.
int64_t CountMeeting(const std::vector<std::vector<int64_t>>& begins, const Box& box) {
  int64_t count = 1;
  for (size_t d = 0; d < box.size(); ++d) {
    const auto first = std::upper_bound(begins[d].begin(), begins[d].end(), box[d].begin) - 1;
    count *= std::lower_bound(first, begins[d].end(), box[d].end) - first;
  }
  return count;
}

// What a device has itself of what it reads.
class OwnShare {
 public:
  OwnShare(const BoxingPhase& phase, const Shape& shape) : phase_(phase), shape_(shape) {
    if (phase.from.mesh == phase.to.mesh) return;
    for (int64_t i = 0; i < phase.from.mesh.num_devices(); ++i) {
      places_[phase.from.mesh.devices()[i]] = i;
    }
  }

  int64_t Elements(int64_t device, const std::vector<int64_t>& at, const Box& wanted) const {
    const Layout& from = phase_.from;
    std::vector<int64_t> mine = at;
    if (!(from.mesh == phase_.to.mesh)) {
      const auto found = places_.find(phase_.to.mesh.devices()[device]);
      if (found == places_.end()) return 0;
      mine = from.mesh.Coordinates(found->second);
    }
    for (size_t a = 0; a < from.sbp.size(); ++a) {
      if (from.sbp[a].is_broadcast() &&
          ReplicaRead(phase_, static_cast<int>(a), at, device) != mine[a]) {
        return 0;  // it reads another replica
      }
    }
    return Volume(Intersect(PlacementAt(from.mesh, from.sbp, shape_, mine).box, wanted));
  }

 private:
  const BoxingPhase& phase_;
  const Shape& shape_;
  std::map<DeviceId, int64_t> places_;  // in the source's mesh, where that is another
};

// Linear in the mesh: how much each device reads, less what it has itself.
PhaseLoad GeneralLoad(const BoxingPhase& phase, const Shape& shape, const MeshNodes& nodes) {
  const Layout &from = phase.from, &to = phase.to;
  const std::vector<bool> kept = KeptPartialAxes(phase);
  int64_t folded = 1;
  for (size_t a = 0; a < from.sbp.size(); ++a) {
    if (from.sbp[a].is_partial() && !kept[a]) folded *= from.mesh.axes()[a].size;
  }
  const OwnShare own(phase, shape);
  const std::vector<std::vector<int64_t>> begins = Begins(from, shape);
  PhaseLoad load;
  PhaseStepLoad step;
  int64_t crossing = 0, busiest = 0;
  for (int64_t i = 0; i < to.mesh.num_devices(); ++i) {
    const std::vector<int64_t> at = to.mesh.Coordinates(i);
    const Box box = PlacementAt(to.mesh, to.sbp, shape, at).box;
    const int64_t volume = Volume(box);
    step.local = std::max(step.local, volume);
    if (volume == 0 || !ReceivesFold(phase, kept, at)) continue;
    const int64_t read = folded * volume - own.Elements(i, at, box);
    crossing += read, busiest = std::max(busiest, read);
    step.messages = std::max(step.messages, folded * CountMeeting(begins, box));
  }
  step.links.far = from.mesh == to.mesh ? SlowestRead(phase, kept, nodes) : nodes.slowest;
  const bool near = step.links.far == LinkKind::kProcess;
  (near ? load.near : load.far) = crossing;
  (near ? step.near : step.far) = busiest;
  if (!near) step.far_messages = step.messages;
  load.exact_links = near;
  load.steps = {step};
  return load;
}

}  // namespace

PhaseLoad WholeMeshLoadOf(const BoxingPhase& phase, const Shape& shape, const MeshNodes& nodes,
                          const Machine& machine) {
  return phase.recipe == BoxingRecipe::kCopy ? CopyLoad(phase, shape, machine)
                                             : GeneralLoad(phase, shape, nodes);
}

}  // namespace sluice
