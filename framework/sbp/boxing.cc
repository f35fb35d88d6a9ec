// The composition of recipes. On one mesh, a path of NdSbps, each step of which changes one axis
// inside that axis's groups, or the general form, which changes all axes at once. Between meshes of
// the same axes also a path and a copy, on whichever side that is cheaper; between others, a path
// on the source's mesh, the general form, and a path on the destination's, so that what is partial
// is folded before it crosses and what is wanted whole is gathered behind.
//
// Worked example, f32 [1024, 1024] on data=2 model=2. Device (d, m) stands at data=d, model=m.
//   data:P(sum) model:S1 -> data:B model:B. Every device holds one term of half of the columns, 2
//   MiB. The general form is one step in which each reads the three others: 6 MiB a device. The
//   path all_reduce[0]+all_gather[1] adds up along `data` while shards are halves, 2 MiB a device,
//   and then gathers the other half, 2 MiB: 4 MiB, so it is taken. The path that gathers first adds
//   up whole tensors, and reads 6 MiB again. Of an [8, 8] the general form is taken, since a step
//   saved is worth more than bytes.
//   data:S0 model:S0 -> data:B model:B. Axes are cut outermost first, so device (d, m) holds the
//   quarter 2d + m of the rows. all_gather[1]+all_gather[0] is a path: the first leaves half d on
//   every device. The other order is none. After a change of `data` alone device (0, 0) would hold
//   rows 0 to 511, of which the second half lies on (0, 1), who is no neighbour of it along `data`.
//   So an axis may change only if no axis inside of it cuts the same dimension.
//   data:P(sum) model:P(sum) -> data:B model:B. reduce_scatter[1]+all_reduce[0]+all_gather[1]: sums
//   follow the canonical tree, which adds along the innermost axis first, so that no path that
//   begins with `data` would give the same bits.
#include "framework/sbp/boxing.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "framework/base/log.h"
#include "framework/base/status.h"

namespace sluice {
namespace {

struct Transition {
  Sbp::Kind from, to;
  BoxingRecipe recipe;
};

constexpr Transition kTransitions[] = {
    {Sbp::kBroadcast, Sbp::kSplit, BoxingRecipe::kSlice},
    {Sbp::kBroadcast, Sbp::kPartial, BoxingRecipe::kPad},
    {Sbp::kSplit, Sbp::kPartial, BoxingRecipe::kEmbed},
    {Sbp::kSplit, Sbp::kBroadcast, BoxingRecipe::kAllGather},
    {Sbp::kSplit, Sbp::kBroadcast, BoxingRecipe::kAllGatherTwoLevel},
    {Sbp::kSplit, Sbp::kBroadcast, BoxingRecipe::kAllGatherDoubling},
    {Sbp::kSplit, Sbp::kSplit, BoxingRecipe::kAllToAll},
    {Sbp::kPartial, Sbp::kSplit, BoxingRecipe::kReduceScatter},
    {Sbp::kPartial, Sbp::kSplit, BoxingRecipe::kReduceScatterTwoLevel},
    {Sbp::kPartial, Sbp::kSplit, BoxingRecipe::kReduceScatterHalving},
    {Sbp::kPartial, Sbp::kBroadcast, BoxingRecipe::kAllReduce},
    {Sbp::kPartial, Sbp::kBroadcast, BoxingRecipe::kAllReduceSplit},
    {Sbp::kPartial, Sbp::kBroadcast, BoxingRecipe::kAllReduceTwoLevel},
    {Sbp::kPartial, Sbp::kBroadcast, BoxingRecipe::kAllReduceHalving},
};

bool HasTwoLevels(BoxingRecipe recipe) {
  return recipe == BoxingRecipe::kAllGatherTwoLevel ||
         recipe == BoxingRecipe::kReduceScatterTwoLevel ||
         recipe == BoxingRecipe::kAllReduceTwoLevel;
}

struct Found {
  std::vector<BoxingPhase> phases;
  std::vector<PhaseLoad> loads;
  BoxingCost cost;
};

// An axis of one device holds the same whatever its symbol says.
Layout WithoutIdleAxes(Layout layout) {
  for (size_t a = 0; a < layout.sbp.size(); ++a) {
    if (layout.mesh.axes()[a].size == 1) layout.sbp[a] = Sbp::B();
  }
  return layout;
}

// Paths on one mesh, for one shape: Dijkstra's search over NdSbps, an edge for each change of one
// axis. There are few of them, rank + 2 symbols an axis, so no bound on the distance that is left
// would pay for itself.
class Paths {
 public:
  Paths(const Mesh& mesh, const Shape& shape, DType dtype, const Machine& machine)
      : mesh_(mesh),
        shape_(shape),
        dtype_(dtype),
        machine_(machine),
        nodes_(NodesOf(mesh, machine)) {}

  const MeshNodes& nodes() const { return nodes_; }

  // The cheapest path, if there is one that costs no more than the bound. `limit`: the most
  // elements that a device may hold on the way, so that boxing never needs more memory than its two
  // ends.
  std::optional<Found> Cheapest(const NdSbp& from, const NdSbp& to, int64_t limit,
                                const BoxingCost* bound) {
    std::map<NdSbp, Visit> visits;
    std::set<std::pair<BoxingCost, NdSbp>> queue = {{{}, from}};
    visits[from];
    const std::vector<Sbp> symbols = Symbols(from, to);
    while (!queue.empty()) {
      const auto [cost, now] = *queue.begin();
      queue.erase(queue.begin());
      if (now == to) return WriteOut(visits, to);
      for (int axis = 0; axis < static_cast<int>(now.size()); ++axis) {
        for (const Sbp& symbol : symbols) {
          if (!MayChange(now, axis, symbol)) continue;
          NdSbp next = now;
          next[axis] = symbol;
          if (LargestShard(mesh_, next, shape_) > limit) continue;
          const Found edge = CheapestEdge(now, next, axis);
          const BoxingCost sum = cost + edge.cost;
          if (bound != nullptr && sum > *bound) continue;
          const auto [visit, fresh] = visits.emplace(next, Visit());
          if (!fresh && sum >= visit->second.cost) continue;
          if (!fresh) queue.erase({visit->second.cost, next});
          visit->second = {sum, edge};
          queue.insert({sum, next});
        }
      }
    }
    return std::nullopt;
  }

 private:
  struct Visit {
    BoxingCost cost;
    Found edge;  // the phase that leads here; none at the start
  };

  std::vector<Sbp> Symbols(const NdSbp& from, const NdSbp& to) const {
    std::vector<Sbp> symbols = {Sbp::B()};
    for (int d = 0; d < shape_.rank(); ++d) symbols.push_back(Sbp::S(d));
    Reduction reduction = ReductionOf(from);
    if (reduction == Reduction::kNone) reduction = ReductionOf(to);
    if (reduction != Reduction::kNone) symbols.push_back(Sbp::P(reduction));
    return symbols;
  }

  // Whether the moves stay inside the axis's groups, and sums stay in the canonical order: axes are
  // folded from the innermost out.
  bool MayChange(const NdSbp& now, int axis, const Sbp& symbol) const {
    if (now[axis] == symbol || mesh_.axes()[axis].size == 1) return false;
    if (now[axis].is_partial() && symbol.is_partial()) return false;
    for (size_t inner = axis + 1; inner < now.size(); ++inner) {
      if (now[inner].is_split() && (now[inner] == now[axis] || now[inner] == symbol)) return false;
      if (now[inner].is_partial() && now[inner] == now[axis] &&
          !OrderIsFree(now[inner].reduction)) {
        return false;
      }
    }
    return true;
  }

  Found CheapestEdge(const NdSbp& now, const NdSbp& next, int axis) {
    Found best;
    BoxingPhase phase = {
        BoxingRecipe::kGeneral, axis, nodes_.axes[axis].inner, {mesh_, now}, {mesh_, next}};
    for (BoxingRecipe recipe :
         AxisRecipes(now[axis], next[axis], mesh_.axes()[axis].size, phase.inner)) {
      phase.recipe = recipe;
      const PhaseLoad load = LoadOf(phase, shape_, nodes_, machine_);
      const BoxingCost cost = PhaseCost(load, dtype_, machine_);
      if (best.phases.empty() || cost < best.cost) best = {{phase}, {load}, cost};
    }
    return best;
  }

  static Found WriteOut(const std::map<NdSbp, Visit>& visits, const NdSbp& to) {
    Found found;
    found.cost = visits.at(to).cost;
    for (const Visit* at = &visits.at(to); !at->edge.phases.empty();
         at = &visits.at(at->edge.phases[0].from.sbp)) {
      found.phases.insert(found.phases.begin(), at->edge.phases[0]);
      found.loads.insert(found.loads.begin(), at->edge.loads[0]);
    }
    return found;
  }

  const Mesh& mesh_;
  const Shape& shape_;
  const DType dtype_;
  const Machine& machine_;
  const MeshNodes nodes_;
};

class Search {
 public:
  Search(const Layout& from, const Layout& to, const Shape& shape, DType dtype,
         const Machine& machine)
      : from_(WithoutIdleAxes(from)),
        to_(WithoutIdleAxes(to)),
        shape_(shape),
        dtype_(dtype),
        machine_(machine),
        limit_(std::max(LargestShard(from_.mesh, from_.sbp, shape),
                        LargestShard(to_.mesh, to_.sbp, shape))),
        slowest_(SlowestLink(from_.mesh, to_.mesh, machine)),
        here_(from_.mesh, shape, dtype, machine),
        there_(to_.mesh, shape, dtype, machine) {}

  Found Run() {
    if (from_.mesh == to_.mesh) {
      if (from_.sbp == to_.sbp) return {};
      Keep(WholeMesh(BoxingRecipe::kGeneral, from_, to_));
      if (auto path = here_.Cheapest(from_.sbp, to_.sbp, limit_, Bound())) best_ = *path;
      return best_;
    }
    if (SameAxes()) AddCopies();
    AddGeneral();
    return best_;
  }

 private:
  const BoxingCost* Bound() const { return best_.phases.empty() ? nullptr : &best_.cost; }

  void Keep(Found found) {
    if (best_.phases.empty() || found.cost < best_.cost) best_ = std::move(found);
  }

  static Found Join(Found first, const Found& second) {
    first.phases.insert(first.phases.end(), second.phases.begin(), second.phases.end());
    first.loads.insert(first.loads.end(), second.loads.begin(), second.loads.end());
    first.cost = first.cost + second.cost;
    return first;
  }

  Found WholeMesh(BoxingRecipe recipe, const Layout& from, const Layout& to) const {
    const BoxingPhase phase = {recipe, -1, 1, from, to};
    MeshNodes nodes = here_.nodes();
    nodes.slowest = slowest_;
    const PhaseLoad load = LoadOf(phase, shape_, nodes, machine_);
    return {{phase}, {load}, PhaseCost(load, dtype_, machine_)};
  }

  bool SameAxes() const {
    return std::equal(from_.mesh.axes().begin(), from_.mesh.axes().end(), to_.mesh.axes().begin(),
                      to_.mesh.axes().end(),
                      [](const MeshAxis& a, const MeshAxis& b) { return a.size == b.size; });
  }

  void AddCopies() {
    const Layout moved = {to_.mesh, from_.sbp}, ready = {from_.mesh, to_.sbp};
    if (auto path = here_.Cheapest(from_.sbp, to_.sbp, limit_, nullptr)) {
      Keep(Join(*path, WholeMesh(BoxingRecipe::kCopy, ready, to_)));
    }
    if (auto path = there_.Cheapest(from_.sbp, to_.sbp, limit_, Bound())) {
      Keep(Join(WholeMesh(BoxingRecipe::kCopy, from_, moved), *path));
    }
  }

  // The layouts that have something else where `sbp` has the kind: all splits, and `other`.
  std::vector<NdSbp> Instead(const Mesh& mesh, const NdSbp& sbp, Sbp::Kind kind) const {
    std::vector<NdSbp> all = {sbp};
    for (size_t a = 0; a < sbp.size(); ++a) {
      if (sbp[a].kind != kind || mesh.axes()[a].size == 1) continue;
      std::vector<NdSbp> more;
      for (NdSbp each : all) {
        if (kind == Sbp::kPartial) each[a] = Sbp::B();
        more.push_back(each);
        for (int d = 0; d < shape_.rank(); ++d) {
          each[a] = Sbp::S(d);
          more.push_back(each);
        }
      }
      all = std::move(more);
    }
    std::erase_if(all, [&](const NdSbp& each) {
      return each == sbp || LargestShard(mesh, each, shape_) > limit_;
    });
    return all;
  }

  // Folds first what is partial, gathers last what is wanted whole; each is looked for alone.
  void AddGeneral() {
    Keep(WholeMesh(BoxingRecipe::kGeneral, from_, to_));
    Found before;
    Layout middle = from_;
    Found direct = WholeMesh(BoxingRecipe::kGeneral, from_, to_);
    for (const NdSbp& each : Instead(from_.mesh, from_.sbp, Sbp::kPartial)) {
      const Found across = WholeMesh(BoxingRecipe::kGeneral, {from_.mesh, each}, to_);
      const auto path = here_.Cheapest(from_.sbp, each, limit_, &direct.cost);
      if (!path || !(path->cost + across.cost < direct.cost)) continue;
      before = *path, middle.sbp = each;
      direct = Join(*path, across);
      Keep(direct);
    }
    for (const NdSbp& each : Instead(to_.mesh, to_.sbp, Sbp::kBroadcast)) {
      const Found across = WholeMesh(BoxingRecipe::kGeneral, middle, {to_.mesh, each});
      const auto path = there_.Cheapest(each, to_.sbp, limit_, Bound());
      if (path) Keep(Join(Join(before, across), *path));
    }
  }

  const Layout from_, to_;
  const Shape& shape_;
  const DType dtype_;
  const Machine& machine_;
  const int64_t limit_;
  const LinkKind slowest_;  // between devices of both meshes
  Paths here_, there_;
  Found best_;
};

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

std::vector<BoxingRecipe> AxisRecipes(Sbp from, Sbp to, int64_t size, int64_t inner) {
  std::vector<BoxingRecipe> recipes;
  for (const Transition& each : kTransitions) {
    if (each.from != from.kind || each.to != to.kind) continue;
    if (HasTwoLevels(each.recipe)) {
      // Blocks of no power of two are no nodes of the canonical tree.
      const bool folds = from.is_partial() && !OrderIsFree(from.reduction);
      if (inner <= 1 || inner >= size || (folds && (inner & (inner - 1)) != 0)) continue;
    }
    recipes.push_back(each.recipe);
  }
  return recipes;
}

std::string SymbolicBoxing::ToString() const {
  if (phases.empty()) return "identity";
  std::string text;
  for (const BoxingPhase& phase : phases) {
    absl::StrAppend(&text, text.empty() ? "" : "+", PhaseName(phase));
  }
  return text;
}

absl::StatusOr<SymbolicBoxing> FindBoxing(const Layout& from, const Layout& to, const Shape& shape,
                                          DType dtype, const Machine& machine) {
  RETURN_IF_ERROR(CheckPair(from, to, shape));
  Found found = Search(from, to, shape, dtype, machine).Run();
  int64_t between_hosts = 0;
  for (const PhaseLoad& load : found.loads) between_hosts += load.BetweenHosts() * SizeOf(dtype);
  return SymbolicBoxing{std::move(found.phases), std::move(found.loads), found.cost.bytes,
                        found.cost.nanoseconds, between_hosts};
}

absl::StatusOr<const SymbolicBoxing*> BoxingPlanner::Find(const Layout& from, const Layout& to,
                                                          const Shape& shape, DType dtype) {
  std::unique_ptr<SymbolicBoxing>& known = boxings_[KeyOf(from, to, shape, dtype)];
  if (known == nullptr) {
    ASSIGN_OR_RETURN(SymbolicBoxing found, FindBoxing(from, to, shape, dtype, machine_));
    known = std::make_unique<SymbolicBoxing>(std::move(found));
  }
  return known.get();
}

const std::vector<PhaseWrite>& BoxingPlanner::Steps(const BoxingPhase& phase, const Shape& shape,
                                                    int64_t device) {
  const auto [known, fresh] = steps_.try_emplace({&phase, device});
  if (fresh) known->second = PhaseSteps(phase, shape, device);
  return known->second;
}

const std::vector<std::vector<int64_t>>& BoxingPlanner::Readers(const BoxingPhase& phase,
                                                                const Shape& shape,
                                                                int64_t device) {
  const auto [known, fresh] = readers_.try_emplace({&phase, device});
  if (fresh) known->second = PhaseReaders(phase, shape, device);
  return known->second;
}

}  // namespace sluice
