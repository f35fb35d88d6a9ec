// Boxing of large meshes: what it costs to plan depends on the devices whose share is asked for.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/sbp/boxing_candidates.h"

namespace sluice {
namespace {

bool SameSizes(const Mesh& a, const Mesh& b) {
  return std::equal(a.axes().begin(), a.axes().end(), b.axes().begin(), b.axes().end(),
                    [](const MeshAxis& x, const MeshAxis& y) { return x.size == y.size; });
}

// Device i of the one mesh gives what it holds to device i of the other, which stands behind all of
// the first in the numbering.
class Copy {
 public:
  Copy(const Mesh& from, const Mesh& to, const Machine& machine)
      : from_(from), to_(to), machine_(machine) {}

  BoxingCost Cost(int64_t shard, DType dtype) const {
    StepLoad load;
    for (int64_t i = 0; i < from_.num_devices(); ++i) (Far(i) ? load.far : load.near) = shard;
    load.crossing = from_.num_devices() * shard;
    StageCost cost;
    cost.Add({CostOf(load, dtype, machine_)}, false, 1);
    return cost.Sum(machine_);
  }

  BoxingStage Stage(const NdSbp& sbp, const Shape& shape, const std::vector<int>& wanted) const {
    BoxingStage stage;
    const int64_t devices = from_.num_devices();
    for (int i : wanted) {
      const Box box = PlacementAt(from_, sbp, shape, from_.Coordinates(i)).box;
      BoxingGroup group;
      group.devices = {i, static_cast<int>(devices) + i};
      group.problem.nodes = {0, Far(i) ? 1 : 0};
      group.problem.source.shards = {{true, box, 0}, {}};
      group.problem.target.shards = {{}, {true, box, 0}};
      group.moves = GeneralMoves(group.problem, BoxingTargets(group.problem), BoxingForm::kDirect);
      stage.push_back(std::move(group));
    }
    return stage;
  }

 private:
  bool Far(int64_t i) const {
    return machine_.NodeOf(from_.devices()[i]) != machine_.NodeOf(to_.devices()[i]);
  }

  const Mesh& from_;
  const Mesh& to_;
  const Machine& machine_;
};

// A path on the one mesh and a copy to the other, before or after.
bool AcrossMeshes(const Layout& from, const Layout& to, const Shape& shape, DType dtype,
                  const Machine& machine, const std::vector<int>& wanted,
                  BoxingCandidate* candidate) {
  const int devices = static_cast<int>(from.mesh.num_devices());
  std::vector<int> here, there;  // wanted devices, as numbered by their mesh
  for (int device : wanted) {
    if (device < devices) {
      here.push_back(device);
    } else {
      there.push_back(device - devices);
    }
  }
  // No stage of a share is empty, so that steps have the same number in all shares.
  if (here.empty() && !there.empty()) here.push_back(there[0]);
  if (there.empty() && !here.empty()) there.push_back(here[0]);
  const Copy copy(from.mesh, to.mesh, machine);
  BoxingCandidate before, after;  // prices alone
  if (!CheapestEvenPath(from.mesh, from.sbp, to.sbp, shape, dtype, machine, {}, &before) ||
      !CheapestEvenPath(to.mesh, from.sbp, to.sbp, shape, dtype, machine, {}, &after)) {
    return false;
  }
  before.cost = before.cost + copy.Cost(LargestShard(from.mesh, to.sbp, shape), dtype);
  after.cost = after.cost + copy.Cost(LargestShard(from.mesh, from.sbp, shape), dtype);
  const bool first = before.cost <= after.cost;
  CheapestEvenPath(first ? from.mesh : to.mesh, from.sbp, to.sbp, shape, dtype, machine,
                   first ? here : there, candidate);
  candidate->cost = first ? before.cost : after.cost;
  for (BoxingStage& stage : candidate->stages) {
    for (BoxingGroup& group : stage) {
      for (int& device : group.devices) device += first ? 0 : devices;
    }
  }
  for (BoxingAxis& axis : candidate->axes) axis.at_destination = !first;
  BoxingStage moved = copy.Stage(first ? to.sbp : from.sbp, shape, there);
  std::vector<BoxingStage>& stages = candidate->stages;
  stages.insert(first ? stages.end() : stages.begin(), std::move(moved));
  const std::string path = candidate->recipe == "identity" ? "" : candidate->recipe;
  const char* plus = path.empty() ? "" : "+";
  candidate->recipe = first ? absl::StrCat(path, plus, "copy") : absl::StrCat("copy", plus, path);
  return true;
}

}  // namespace

absl::StatusOr<Boxing> PlanLargeBoxing(const Layout& from, const Layout& to, const Shape& shape,
                                       DType dtype, const Machine& machine,
                                       absl::Span<const DeviceId> wanted) {
  const bool one_mesh = from.mesh == to.mesh;
  std::vector<DeviceId> devices = from.mesh.devices();
  if (!one_mesh) {
    devices.insert(devices.end(), to.mesh.devices().begin(), to.mesh.devices().end());
  }
  std::vector<int> numbers;
  for (size_t i = 0; i < devices.size(); ++i) {
    if (std::binary_search(wanted.begin(), wanted.end(), devices[i])) {
      numbers.push_back(static_cast<int>(i));
    }
  }
  if (!one_mesh) {
    std::vector<DeviceId> sorted = devices;
    std::sort(sorted.begin(), sorted.end());
    const bool apart = std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
    if (!apart || !SameSizes(from.mesh, to.mesh)) return absl::NotFoundError("other meshes");
  }
  BoxingCandidate candidate;
  const bool found = one_mesh ? CheapestEvenPath(from.mesh, from.sbp, to.sbp, shape, dtype, machine,
                                                 numbers, &candidate)
                              : AcrossMeshes(from, to, shape, dtype, machine, numbers, &candidate);
  if (!found) return absl::NotFoundError("no even path");
  return AssembleShare(candidate, devices, from, to, shape, numbers);
}

}  // namespace sluice
