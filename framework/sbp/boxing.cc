#include "framework/sbp/boxing.h"

#include <algorithm>
#include <map>
#include <optional>

#include "absl/strings/str_cat.h"
#include "framework/base/log.h"
#include "framework/base/status.h"
#include "framework/sbp/boxing_candidates.h"

namespace sluice {
namespace {

// Both meshes' devices, numbered.
std::vector<DeviceId> AllDevices(const Layout& from, const Layout& to) {
  std::vector<DeviceId> devices = from.mesh.devices();
  if (from.mesh == to.mesh) return devices;  // the numbering of paths
  devices.insert(devices.end(), to.mesh.devices().begin(), to.mesh.devices().end());
  std::sort(devices.begin(), devices.end());
  devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
  return devices;
}

BoxingSide SideOf(const Layout& layout, const Shape& shape, const std::vector<DeviceId>& devices) {
  BoxingSide side;
  side.reduction = ReductionOf(layout.sbp);
  for (size_t a = 0; a < layout.sbp.size(); ++a) {
    if (layout.sbp[a].is_partial()) side.partial_sizes.push_back(layout.mesh.axes()[a].size);
  }
  std::map<DeviceId, int64_t> index;
  for (int64_t i = 0; i < layout.mesh.num_devices(); ++i) index[layout.mesh.devices()[i]] = i;
  for (const DeviceId& device : devices) {
    BoxingShard shard;
    const auto at = index.find(device);
    if (at != index.end()) {
      const Placement placement =
          PlacementAt(layout.mesh, layout.sbp, shape, layout.mesh.Coordinates(at->second));
      shard = {true, placement.box, placement.partial};
    }
    side.shards.push_back(std::move(shard));
  }
  return side;
}

// Everything about one pair that its candidates share.
class Pair {
 public:
  Pair(const Layout& from, const Layout& to, const Shape& shape, DType dtype,
       const Machine& machine)
      : from_(from),
        to_(to),
        shape_(shape),
        dtype_(dtype),
        machine_(machine),
        devices_(AllDevices(from, to)) {}

  // The general forms, in the order in which ties are broken.
  std::vector<BoxingCandidate> General() const {
    BoxingProblem problem;
    for (const DeviceId& device : devices_) problem.nodes.push_back(machine_.NodeOf(device));
    problem.source = SideOf(from_, shape_, devices_);
    problem.target = SideOf(to_, shape_, devices_);
    const std::vector<BoxingTarget> targets = BoxingTargets(problem);

    std::vector<std::pair<BoxingForm, const char*>> forms = {{BoxingForm::kDirect, "direct"}};
    if (problem.source.reduction != Reduction::kNone) {
      forms.emplace_back(BoxingForm::kHome, "home");
      forms.emplace_back(BoxingForm::kSource, "source");
    }
    if (std::count(problem.nodes.begin(), problem.nodes.end(), problem.nodes[0]) !=
        static_cast<int64_t>(problem.nodes.size())) {
      forms.emplace_back(BoxingForm::kTwoLevel, "two_level");
    }
    std::vector<BoxingCandidate> candidates;
    for (const auto& form : forms) {
      BoxingGroup group;
      for (size_t i = 0; i < devices_.size(); ++i) group.devices.push_back(static_cast<int>(i));
      group.moves = GeneralMoves(problem, targets, form.first);
      StageCost cost;
      cost.Add(StepCosts(group.moves, problem, dtype_, machine_), group.moves.identity, 1);
      BoxingCandidate candidate;
      candidate.recipe = absl::StrCat("general:", form.second);
      candidate.cost = cost.Sum(machine_);
      group.problem = problem;
      candidate.stages.push_back({std::move(group)});
      candidates.push_back(std::move(candidate));
    }
    return candidates;
  }

  // The composed path, if the meshes are one and there is a path no dearer than the bound.
  std::optional<BoxingCandidate> Path(const BoxingCost* bound) const {
    BoxingCandidate path;
    if (!(from_.mesh == to_.mesh) ||
        !CheapestPath(from_.mesh, from_.sbp, to_.sbp, shape_, dtype_, machine_, bound, &path)) {
      return std::nullopt;
    }
    return path;
  }

  Boxing Assemble(const BoxingCandidate& candidate) const {
    return AssembleBoxing(candidate, devices_, from_, to_, shape_);
  }

 private:
  const Layout& from_;
  const Layout& to_;
  const Shape& shape_;
  const DType dtype_;
  const Machine& machine_;
  const std::vector<DeviceId> devices_;
};

template <typename T>
void AppendBytes(T value, std::string* key) {
  key->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void AppendLayout(const Layout& layout, std::string* key) {
  AppendBytes(layout.mesh.axes().size(), key);
  for (const MeshAxis& axis : layout.mesh.axes()) AppendBytes(axis.size, key);
  AppendBytes(layout.mesh.devices_hash(), key);
  for (const Sbp& sbp : layout.sbp) {
    AppendBytes(sbp.kind, key);
    AppendBytes(sbp.dim, key);
    AppendBytes(sbp.reduction, key);
  }
}

std::string KeyOf(const Layout& from, const Layout& to, const Shape& shape, DType dtype) {
  std::string key;
  AppendLayout(from, &key);
  AppendLayout(to, &key);
  for (int64_t extent : shape) AppendBytes(extent, &key);
  AppendBytes(dtype, &key);
  return key;
}

}  // namespace

absl::Status CheckPair(const Layout& from, const Layout& to, const Shape& shape) {
  const absl::Status source = CheckNdSbp(from.sbp, from.mesh, shape);
  if (!source.ok()) return AddContext(source, "boxing, source");
  const absl::Status wanted = CheckNdSbp(to.sbp, to.mesh, shape);
  if (!wanted.ok()) return AddContext(wanted, "boxing, destination");
  const Reduction has = ReductionOf(from.sbp), wants = ReductionOf(to.sbp);
  if (has != Reduction::kNone && wants != Reduction::kNone && has != wants) {
    return absl::InvalidArgumentError(
        absl::StrCat("boxing: expected one kind of P, got P(", ReductionName(has), ") into P(",
                     ReductionName(wants), "), from \"", ToString(from.sbp, from.mesh), "\" to \"",
                     ToString(to.sbp, to.mesh), "\""));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Boxing>> BoxingCandidates(const Layout& from, const Layout& to,
                                                     const Shape& shape, DType dtype,
                                                     const Machine& machine) {
  RETURN_IF_ERROR(CheckPair(from, to, shape));
  const Pair pair(from, to, shape, dtype, machine);
  std::vector<Boxing> boxings;
  const std::optional<BoxingCandidate> path = pair.Path(nullptr);
  if (path) boxings.push_back(pair.Assemble(*path));
  for (const BoxingCandidate& candidate : pair.General()) {
    boxings.push_back(pair.Assemble(candidate));
  }
  return boxings;
}

absl::StatusOr<Boxing> PlanBoxing(const Layout& from, const Layout& to, const Shape& shape,
                                  DType dtype, const Machine& machine) {
  RETURN_IF_ERROR(CheckPair(from, to, shape));
  const Pair pair(from, to, shape, dtype, machine);
  if (from.mesh == to.mesh && from.sbp == to.sbp) return pair.Assemble(*pair.Path(nullptr));
  const std::vector<BoxingCandidate> general = pair.General();
  const BoxingCandidate* best = &general[0];
  for (const BoxingCandidate& candidate : general) {
    if (candidate.cost < best->cost) best = &candidate;
  }
  const std::optional<BoxingCandidate> path = pair.Path(&best->cost);
  return pair.Assemble(path ? *path : *best);
}

bool BoxingPlanner::IsLarge(const Layout& from, const Layout& to) const {
  return std::max(from.mesh.num_devices(), to.mesh.num_devices()) > large_;
}

absl::StatusOr<BoxingPrice> BoxingPlanner::Price(const Layout& from, const Layout& to,
                                                 const Shape& shape, DType dtype) {
  if (!IsLarge(from, to)) {
    ASSIGN_OR_RETURN(const Boxing* boxing, Plan(from, to, shape, dtype));
    return BoxingPrice{boxing->bytes, boxing->nanoseconds};
  }
  const auto [price, fresh] = prices_.emplace(KeyOf(from, to, shape, dtype), BoxingPrice());
  if (!fresh) return price->second;
  auto boxing = PlanShare(from, to, shape, dtype, {}, 0);
  if (!boxing.ok()) {
    prices_.erase(price);
    return boxing.status();
  }
  price->second = {(*boxing)->bytes, (*boxing)->nanoseconds};
  return price->second;
}

absl::StatusOr<const Boxing*> BoxingPlanner::Plan(const Layout& from, const Layout& to,
                                                  const Shape& shape, DType dtype) {
  if (!IsLarge(from, to)) return PlanShare(from, to, shape, dtype, {}, 0);
  std::vector<DeviceId> all = AllDevices(from, to);
  std::sort(all.begin(), all.end());  // of one mesh they come in its order
  return PlanShare(from, to, shape, dtype, all, ~uint64_t{0});
}

absl::StatusOr<const Boxing*> BoxingPlanner::PlanShare(const Layout& from, const Layout& to,
                                                       const Shape& shape, DType dtype,
                                                       absl::Span<const DeviceId> wanted,
                                                       uint64_t wanted_key) {
  const bool large = IsLarge(from, to);
  std::string key = KeyOf(from, to, shape, dtype);
  if (large) AppendBytes(wanted_key, &key);
  std::unique_ptr<Boxing>& plan = plans_[key];
  if (plan != nullptr) return plan.get();
  absl::StatusOr<Boxing> boxing = absl::NotFoundError("no even path");
  const absl::Status suits = CheckPair(from, to, shape);
  if (large && suits.ok()) boxing = PlanLargeBoxing(from, to, shape, dtype, machine_, wanted);
  if (!boxing.ok()) boxing = PlanBoxing(from, to, shape, dtype, machine_);
  if (!boxing.ok()) {
    plans_.erase(key);
    return boxing.status();
  }
  plan = std::make_unique<Boxing>(*std::move(boxing));
  return plan.get();
}

}  // namespace sluice
