// Phases between whole meshes: the copy from device to device, and the general form, in which each
// shard is put together of slices of shards, folded where a reduction is partial. Along an axis
// that does not change, a device reads its own place alone, because its shard meets no other; so on
// one mesh the general form is also the move that several axes make together, such as (S0,S1) to
// (S1,S0) or (S0,S0) to (B,S0), which one axis after another could do only by gathering.
#include <algorithm>

#include "absl/functional/function_ref.h"
#include "framework/base/log.h"
#include "framework/sbp/phase_group.h"

namespace sluice {
namespace {

using Coordinates = std::vector<int64_t>;

// Places along one axis: first, first + step, ... below end.
struct Places {
  int64_t first = 0, step = 1, end = 0;
  static Places One(int64_t i) { return {i, 1, i + 1}; }
};

// Finds the devices of a mesh whose shard meets `wanted`, axis by axis, and looks at no others.
class Meeting {
 public:
  using Choose = absl::FunctionRef<Places(int axis)>;
  using Found = absl::FunctionRef<void(const Coordinates& at, const Box& common)>;

  Meeting(const Layout& layout, const Box& wanted, Choose choose, Found found)
      : layout_(layout), wanted_(wanted), choose_(choose), found_(found), at_(layout.sbp.size()) {}

  void Visit(size_t axis, const Box& box) {
    const Box common = Intersect(box, wanted_);
    if (Volume(common) == 0) return;
    if (axis == at_.size()) return found_(at_, common);
    const Places places = choose_(static_cast<int>(axis));
    const Sbp sbp = layout_.sbp[axis];
    if (!sbp.is_split()) {
      for (at_[axis] = places.first; at_[axis] < places.end; at_[axis] += places.step) {
        Visit(axis + 1, box);
      }
      return;
    }
    const int64_t size = layout_.mesh.axes()[axis].size;
    int64_t i = places.first;
    const int64_t around = CutAround(box[sbp.dim], size, common[sbp.dim].begin);
    if (around > i) i += (around - i + places.step - 1) / places.step * places.step;
    for (; i < places.end; i += places.step) {
      Box piece = box;
      piece[sbp.dim] = Cut(box[sbp.dim], size, i);
      if (piece[sbp.dim].begin >= common[sbp.dim].end) return;
      at_[axis] = i;
      Visit(axis + 1, piece);
    }
  }

 private:
  const Layout& layout_;
  const Box& wanted_;
  Choose choose_;
  Found found_;
  Coordinates at_;
};

int64_t PlaceOf(const Mesh& mesh, const Coordinates& at) {
  int64_t place = 0;
  for (size_t a = 0; a < at.size(); ++a) place = place * mesh.axes()[a].size + at[a];
  return place;
}

bool AxisByAxis(const BoxingPhase& phase) {
  return phase.from.mesh.axes().size() == phase.to.mesh.axes().size();
}

}  // namespace

std::vector<bool> KeptPartialAxes(const BoxingPhase& phase) {
  std::vector<bool> kept(phase.from.sbp.size());
  if (!(phase.from.mesh == phase.to.mesh)) return kept;
  // Only whole subtrees may be folded, which are those of the inner axes: an axis is kept only if
  // all partial ones outside it are.
  for (size_t a = 0; a < kept.size(); ++a) {
    if (!phase.from.sbp[a].is_partial()) continue;
    if (!phase.to.sbp[a].is_partial()) break;
    kept[a] = true;
  }
  return kept;
}

bool ReceivesFold(const BoxingPhase& phase, const std::vector<bool>& kept, const Coordinates& at) {
  for (size_t a = 0; a < at.size(); ++a) {
    if (phase.to.sbp[a].is_partial() && !(a < kept.size() && kept[a]) && at[a] != 0) return false;
  }
  return true;
}

int64_t ReplicaRead(const BoxingPhase& phase, int axis, const Coordinates& at, int64_t device) {
  // Its own place where the axes are alike, which is nearest; else spread over all.
  return (AxisByAxis(phase) ? at[axis] : device) % phase.from.mesh.axes()[axis].size;
}

namespace {

// Source shards that a device reads, in the order of their boxes; for each box, its partials.
void AddFolds(const BoxingPhase& phase, const Shape& shape, int64_t device, const Coordinates& at,
              PhaseWrite* write) {
  const Layout& from = phase.from;
  const std::vector<bool> kept = KeptPartialAxes(phase);
  const Box wanted = write->pieces[0];
  std::vector<int64_t> sizes;  // of the axes that are folded
  for (size_t a = 0; a < from.sbp.size(); ++a) {
    if (from.sbp[a].is_partial() && !kept[a]) sizes.push_back(from.mesh.axes()[a].size);
  }
  const auto choose = [&](int axis, bool partials) {
    const Places all = {0, 1, from.mesh.axes()[axis].size};
    if (from.sbp[axis].is_split()) return all;
    if (from.sbp[axis].is_broadcast()) return Places::One(ReplicaRead(phase, axis, at, device));
    return kept[axis] ? Places::One(at[axis]) : partials ? all : Places::One(0);
  };
  const auto add_region = [&](const Coordinates& source, const Box& common) {
    PhaseRegion region = {common, {}, {}};
    std::vector<FoldRange> ranges;
    const auto of_box = [&](int axis) {
      return from.sbp[axis].is_split() ? Places::One(source[axis]) : choose(axis, true);
    };
    Meeting(from, common, of_box, [&](const Coordinates& each, const Box&) {
      const int64_t partial = static_cast<int64_t>(ranges.size());
      ranges.push_back({partial, partial + 1});
      region.sources.push_back({PlaceOf(from.mesh, each), ranges.back()});
    }).Visit(0, WholeBox(shape));
    region.fold = FoldOrder(ranges, ReductionOf(from.sbp), sizes);
    write->regions.push_back(std::move(region));
  };
  const auto of_box = [&](int axis) { return choose(axis, false); };
  Meeting(from, wanted, of_box, add_region).Visit(0, WholeBox(shape));
}

}  // namespace

PhaseWrite WholeMeshStep(const BoxingPhase& phase, const Shape& shape, int64_t device) {
  PhaseWrite write;
  write.pieces = PhasePieces(phase, shape, 1, device);
  if (write.pieces.empty()) return write;
  const Coordinates at = phase.to.mesh.Coordinates(device);
  if (phase.recipe == BoxingRecipe::kCopy) {
    write.regions.push_back({write.pieces[0], {{device, {0, 1}}}, {0}});
  } else if (ReceivesFold(phase, KeptPartialAxes(phase), at)) {
    AddFolds(phase, shape, device, at, &write);
  } else {
    write.fill_identity = true;
  }
  return write;
}

std::vector<int64_t> WholeMeshReaders(const BoxingPhase& phase, const Shape& shape,
                                      int64_t device) {
  const Coordinates at = phase.from.mesh.Coordinates(device);
  const Box mine = PlacementAt(phase.from.mesh, phase.from.sbp, shape, at).box;
  if (Volume(mine) == 0) return {};
  if (phase.recipe == BoxingRecipe::kCopy) return {device};
  const std::vector<bool> kept = KeptPartialAxes(phase);
  const bool one_mesh = phase.from.mesh == phase.to.mesh, by_axis = AxisByAxis(phase);
  const auto choose = [&](int axis) {
    const bool stays = axis < static_cast<int>(kept.size()) && kept[axis];
    if (stays) return Places::One(at[axis]);
    Places places = {0, 1, phase.to.mesh.axes()[axis].size};
    if (by_axis && phase.from.sbp[axis].is_broadcast()) {
      places.first = at[axis], places.step = phase.from.mesh.axes()[axis].size;
    }
    if (phase.to.sbp[axis].is_partial()) places.end = 1;  // the others hold the identity
    return places;
  };
  std::vector<int64_t> readers;
  Meeting(phase.to, mine, choose, [&](const Coordinates& reader, const Box&) {
    const int64_t place = PlaceOf(phase.to.mesh, reader);
    for (size_t a = 0; a < at.size(); ++a) {
      if (phase.from.sbp[a].is_broadcast() &&
          ReplicaRead(phase, static_cast<int>(a), reader, place) != at[a]) {
        return;
      }
    }
    if (!one_mesh || place != device) readers.push_back(place);
  }).Visit(0, WholeBox(shape));
  std::sort(readers.begin(), readers.end());
  return readers;
}

}  // namespace sluice
