// One-axis recipes, and their composition on one mesh.
#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "framework/base/log.h"
#include "framework/sbp/boxing_candidates.h"

namespace sluice {
namespace {

// What one axis can do, and how many of kForms are tried inside each of the axis's groups.
struct Recipe {
  Sbp::Kind from, to;
  const char* name;
  int forms;
};

constexpr BoxingForm kForms[] = {BoxingForm::kDirect, BoxingForm::kHome};

constexpr Recipe kRecipes[] = {
    {Sbp::kBroadcast, Sbp::kSplit, "slice", 1},
    {Sbp::kBroadcast, Sbp::kPartial, "pad", 1},
    {Sbp::kSplit, Sbp::kPartial, "embed", 1},
    {Sbp::kSplit, Sbp::kBroadcast, "all_gather", 1},
    {Sbp::kSplit, Sbp::kSplit, "all_to_all", 1},
    {Sbp::kPartial, Sbp::kSplit, "reduce_scatter", 1},
    {Sbp::kPartial, Sbp::kBroadcast, "all_reduce", 2},
};

// The change of one axis of one NdSbp.
struct Edge {
  int axis = 0;
  const Recipe* recipe = nullptr;
  BoxingForm form = BoxingForm::kDirect;
  BoxingCost cost;
};

class PathSearch {
 public:
  // `wanted`, if not null: even shards alone, in closed form, and the share of these devices alone.
  PathSearch(const Mesh& mesh, const Shape& shape, DType dtype, const Machine& machine,
             const std::vector<int>* wanted)
      : mesh_(mesh), shape_(shape), dtype_(dtype), machine_(machine), wanted_(wanted) {
    for (const DeviceId& device : mesh.devices()) nodes_.push_back(machine.NodeOf(device));
    if (wanted == nullptr) return;
    for (size_t a = 0; a < mesh.axes().size(); ++a) {
      peers_.push_back(PeersAlong(static_cast<int>(a)));
    }
  }

  bool Run(const NdSbp& from, const NdSbp& to, const BoxingCost* bound, BoxingCandidate* path) {
    for (int d = 0; d < shape_.rank(); ++d) symbols_.push_back(Sbp::S(d));
    symbols_.push_back(Sbp::B());
    for (const NdSbp& end : {from, to}) {
      const Reduction reduction = ReductionOf(end);
      if (reduction != Reduction::kNone && !symbols_.back().is_partial()) {
        symbols_.push_back(Sbp::P(reduction));
      }
    }
    limit_ = std::max(LargestShard(mesh_, from, shape_), LargestShard(mesh_, to, shape_));

    visits_.push_back({from, {}, -1, {}, false});
    index_[from] = 0;
    queue_.insert({{}, 0});
    while (!queue_.empty()) {
      const int at = queue_.begin()->second;
      queue_.erase(queue_.begin());
      visits_[at].done = true;
      if (visits_[at].sbp == to) {
        WriteOut(at, path);
        return true;
      }
      Expand(at, bound);
    }
    return false;
  }

 private:
  struct Visit {
    NdSbp sbp;
    BoxingCost cost;
    int before = -1;  // the visit that it was reached from, by this edge
    Edge edge;
    bool done = false;
  };

  void Expand(int at, const BoxingCost* bound) {
    for (int axis = 0; axis < static_cast<int>(mesh_.axes().size()); ++axis) {
      for (const Sbp& symbol : symbols_) {
        const NdSbp now = visits_[at].sbp;
        if (!MayChange(now, axis, symbol)) continue;
        NdSbp next = now;
        next[axis] = symbol;
        const auto known = index_.find(next);
        if (known != index_.end() && visits_[known->second].done) continue;
        if (LargestShard(mesh_, next, shape_) > limit_) continue;
        if (wanted_ != nullptr && !IsEven(mesh_, next, shape_)) continue;
        const Edge edge = wanted_ != nullptr ? EvenPrice(now, next, axis) : Price(now, next, axis);
        const BoxingCost cost = visits_[at].cost + edge.cost;
        if (bound != nullptr && cost > *bound) continue;
        int to = static_cast<int>(visits_.size());
        if (known == index_.end()) {
          index_[next] = to;
          visits_.push_back({next, cost, at, edge, false});
        } else {
          to = known->second;
          if (cost >= visits_[to].cost) continue;
          queue_.erase({visits_[to].cost, to});
          visits_[to] = {next, cost, at, edge, false};
        }
        queue_.insert({cost, to});
      }
    }
  }

  // Whether the moves stay inside the axis's groups, and sums stay in the canonical order.
  bool MayChange(const NdSbp& now, int axis, const Sbp& symbol) const {
    if (now[axis] == symbol) return false;
    if (now[axis].is_partial() && symbol.is_partial()) return false;
    for (size_t inner = axis + 1; inner < now.size(); ++inner) {
      if (now[inner].is_split() && (now[inner] == now[axis] || now[inner] == symbol)) return false;
      if (now[inner].is_partial() && now[inner] == now[axis] &&
          now[inner].reduction == Reduction::kSum) {
        return false;
      }
    }
    return true;
  }

  const Box& BoxOf(const NdSbp& sbp, int64_t device) {
    std::vector<Box>& boxes = boxes_[sbp];
    if (boxes.empty()) boxes.resize(mesh_.num_devices());
    Box& box = boxes[device];
    if (box.empty()) box = PlacementAt(mesh_, sbp, shape_, mesh_.Coordinates(device)).box;
    return box;
  }

  // How far the devices of a group along an axis lie apart, and the first device of each group.
  int64_t Stride(int axis) const {
    int64_t stride = 1;
    for (size_t a = axis + 1; a < mesh_.axes().size(); ++a) stride *= mesh_.axes()[a].size;
    return stride;
  }
  std::vector<int> Firsts(int axis) const {
    const int64_t stride = Stride(axis), size = mesh_.axes()[axis].size;
    std::vector<int> firsts;
    for (int64_t i = 0; i < mesh_.num_devices(); ++i) {
      if (i / stride % size == 0) firsts.push_back(static_cast<int>(i));
    }
    return firsts;
  }

  // The group's problem, moved to the origin and to node 0, so that equal groups compare equal.
  BoxingProblem GroupProblem(const NdSbp& now, const NdSbp& next, int axis, int first,
                             bool at_origin) {
    BoxingProblem problem;
    const int64_t size = mesh_.axes()[axis].size, stride = Stride(axis);
    const NdSbp* sides[2] = {&now, &next};
    const Sbp symbols[2] = {now[axis], next[axis]};
    Box origin = BoxOf(now, first);
    for (size_t d = 0; d < origin.size(); ++d) {
      origin[d].begin = std::min(origin[d].begin, BoxOf(next, first)[d].begin);
    }
    for (int64_t j = 0; j < size; ++j) {
      problem.nodes.push_back(nodes_[first + j * stride] - (at_origin ? nodes_[first] : 0));
    }
    for (int s = 0; s < 2; ++s) {
      BoxingSide& side = s == 0 ? problem.source : problem.target;
      const bool partial = symbols[s].is_partial();
      if (partial) {
        side.reduction = symbols[s].reduction;
        side.partial_sizes.push_back(size);
      }
      for (int64_t j = 0; j < size; ++j) {
        BoxingShard shard = {true, BoxOf(*sides[s], first + j * stride), partial ? j : 0};
        for (size_t d = 0; at_origin && d < origin.size(); ++d) {
          shard.box[d].begin -= origin[d].begin;
          shard.box[d].end -= origin[d].begin;
        }
        side.shards.push_back(std::move(shard));
      }
    }
    return problem;
  }

  static bool SameShards(const BoxingSide& a, const BoxingSide& b) {
    for (size_t i = 0; i < a.shards.size(); ++i) {
      if (a.shards[i].box != b.shards[i].box) return false;
    }
    return true;
  }

  // The cost of an edge: each kind of group once.
  Edge Price(const NdSbp& now, const NdSbp& next, int axis) {
    std::vector<std::pair<BoxingProblem, int64_t>> kinds;
    for (int first : Firsts(axis)) {
      BoxingProblem problem = GroupProblem(now, next, axis, first, true);
      const auto same = std::find_if(kinds.begin(), kinds.end(), [&](const auto& kind) {
        return kind.first.nodes == problem.nodes && SameShards(kind.first.source, problem.source) &&
               SameShards(kind.first.target, problem.target);
      });
      if (same == kinds.end()) {
        kinds.emplace_back(std::move(problem), 1);
      } else {
        ++same->second;
      }
    }
    const Recipe* recipe = RecipeOf(now[axis], next[axis]);
    std::vector<StageCost> costs(recipe->forms);
    for (const auto& [problem, times] : kinds) {
      const std::vector<BoxingTarget> targets = BoxingTargets(problem);
      for (int f = 0; f < recipe->forms; ++f) {
        const Moves moves = GeneralMoves(problem, targets, kForms[f]);
        costs[f].Add(StepCosts(moves, problem, dtype_, machine_), moves.identity, times);
      }
    }
    return Cheapest(axis, recipe, costs);
  }

  Edge Cheapest(int axis, const Recipe* recipe, const std::vector<StageCost>& costs) const {
    Edge best;
    for (size_t f = 0; f < costs.size(); ++f) {
      const BoxingCost cost = costs[f].Sum(machine_);
      if (f == 0 || cost < best.cost) best = {axis, recipe, kForms[f], cost};
    }
    return best;
  }

  static const Recipe* RecipeOf(Sbp now, Sbp next) {
    for (const Recipe& each : kRecipes) {
      if (each.from == now.kind && each.to == next.kind) return &each;
    }
    SLUICE_CHECK(false) << ToString(now) << " to " << ToString(next);
    return nullptr;
  }

  // How many peers along an axis a device has in its own node and in others, at most.
  struct Peers {
    int64_t near = 0, far = 0;
  };
  Peers PeersAlong(int axis) const {
    const int64_t size = mesh_.axes()[axis].size, stride = Stride(axis);
    Peers most;
    std::map<int64_t, int64_t> count;
    for (int first : Firsts(axis)) {
      count.clear();
      for (int64_t j = 0; j < size; ++j) ++count[nodes_[first + j * stride]];
      for (const auto& node : count) {
        most.near = std::max(most.near, node.second - 1);
        most.far = std::max(most.far, size - node.second);
      }
    }
    return most;
  }

  // The cost of an edge between even layouts, where all devices do alike: what each of `size`
  // devices keeps, and what it has from each of the others.
  Edge EvenPrice(const NdSbp& now, const NdSbp& next, int axis) const {
    const Recipe* recipe = RecipeOf(now[axis], next[axis]);
    const int64_t size = mesh_.axes()[axis].size;
    if (size == 1) return {axis, recipe, BoxingForm::kDirect, {}};
    const int64_t had = LargestShard(mesh_, now, shape_), gets = LargestShard(mesh_, next, shape_);
    const auto step = [&](int64_t local, int64_t from_each) {
      StepLoad load{local, peers_[axis].near * from_each, peers_[axis].far * from_each, 0};
      load.crossing = mesh_.num_devices() * (size - 1) * from_each;
      return CostOf(load, dtype_, machine_);
    };
    std::vector<StageCost> costs(recipe->forms);
    if (!now[axis].is_partial() && !(now[axis].is_split() && !next[axis].is_partial())) {
      costs[0].Add({step(gets, 0)}, false, 1);  // slice, pad, embed
    } else if (now[axis].is_split() && next[axis].is_split()) {
      costs[0].Add({step(had / size, had / size)}, false, 1);
    } else if (now[axis].is_split()) {
      costs[0].Add({step(had, had)}, false, 1);
    } else if (next[axis].is_split()) {
      costs[0].Add({step(gets, gets)}, false, 1);
    } else {
      const int64_t piece = had / size;
      costs[0].Add({step(had, had)}, false, 1);
      if (MayDeal(now, size)) {
        costs[1].Add({step(piece, piece), step(0, piece)}, false, 1);
      } else {
        costs.pop_back();
      }
    }
    return Cheapest(axis, recipe, costs);
  }

  // Whether a shard is dealt evenly to the devices of an axis (Chop).
  bool MayDeal(const NdSbp& sbp, int64_t size) const {
    const Box box =
        PlacementAt(mesh_, sbp, shape_, std::vector<int64_t>(mesh_.axes().size(), 0)).box;
    int64_t longest = 1;
    for (const Range& range : box) longest = std::max(longest, range.size());
    return longest % size == 0;
  }

  std::vector<int> WantedFirsts(int axis) const {
    if (wanted_ == nullptr) return Firsts(axis);
    const int64_t size = mesh_.axes()[axis].size, stride = Stride(axis);
    std::set<int> firsts;
    for (int device : *wanted_) {
      firsts.insert(static_cast<int>(device - device / stride % size * stride));
    }
    return {firsts.begin(), firsts.end()};
  }

  void WriteOut(int at, BoxingCandidate* path) {
    path->cost = visits_[at].cost;
    for (; visits_[at].before >= 0; at = visits_[at].before) {
      const Visit& visit = visits_[at];
      BoxingStage stage;
      for (int first : WantedFirsts(visit.edge.axis)) {
        BoxingGroup group;
        for (int64_t j = 0; j < mesh_.axes()[visit.edge.axis].size; ++j) {
          group.devices.push_back(first + static_cast<int>(j * Stride(visit.edge.axis)));
        }
        group.problem =
            GroupProblem(visits_[visit.before].sbp, visit.sbp, visit.edge.axis, first, false);
        for (int device : group.devices) {
          if (wanted_ == nullptr) break;
          group.problem.wanted.push_back(
              std::binary_search(wanted_->begin(), wanted_->end(), device));
        }
        group.moves = GeneralMoves(group.problem, BoxingTargets(group.problem), visit.edge.form);
        stage.push_back(std::move(group));
      }
      path->stages.insert(path->stages.begin(), std::move(stage));
      path->axes.insert(path->axes.begin(),
                        {false, visit.edge.axis,
                         visits_[visit.before].sbp[visit.edge.axis].is_broadcast() &&
                             visit.sbp[visit.edge.axis].is_partial()});
      path->recipe = absl::StrCat(visit.edge.recipe->name, "[", visit.edge.axis, "]",
                                  path->recipe.empty() ? "" : "+", path->recipe);
    }
    if (path->recipe.empty()) path->recipe = "identity";
  }

  const Mesh& mesh_;
  const Shape& shape_;
  const DType dtype_;
  const Machine& machine_;
  const std::vector<int>* wanted_;  // ascending
  std::vector<Peers> peers_;        // by axis
  std::vector<int64_t> nodes_;
  std::vector<Sbp> symbols_;
  int64_t limit_ = 0;
  std::vector<Visit> visits_;
  std::map<NdSbp, int> index_;  // into visits_
  std::map<NdSbp, std::vector<Box>> boxes_;
  std::set<std::pair<BoxingCost, int>> queue_;
};

}  // namespace

bool CheapestPath(const Mesh& mesh, const NdSbp& from, const NdSbp& to, const Shape& shape,
                  DType dtype, const Machine& machine, const BoxingCost* bound,
                  BoxingCandidate* path) {
  return PathSearch(mesh, shape, dtype, machine, nullptr).Run(from, to, bound, path);
}

bool CheapestEvenPath(const Mesh& mesh, const NdSbp& from, const NdSbp& to, const Shape& shape,
                      DType dtype, const Machine& machine, const std::vector<int>& wanted,
                      BoxingCandidate* path) {
  if (shape.NumElements() == 0 || !IsEven(mesh, from, shape) || !IsEven(mesh, to, shape)) {
    return false;
  }
  return PathSearch(mesh, shape, dtype, machine, &wanted).Run(from, to, nullptr, path);
}

}  // namespace sluice
