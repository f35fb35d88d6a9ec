#include "framework/sbp/boxing_problem.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "framework/base/log.h"

namespace sluice {
namespace {

int CommonCount(const std::vector<int>& a, const std::vector<int>& b) {
  int count = 0;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    if (a[i] == b[j]) ++count;
    if (a[i] <= b[j]) {
      ++i;
    } else {
      ++j;
    }
  }
  return count;
}

// Which side's which boxes lie over each cell of the grid: one bit a distinct box.
class CellGrid {
 public:
  explicit CellGrid(const BoxingProblem& problem) {
    AddSide(problem.source, false);
    AddSide(problem.target, true);
    annotation_ = (boxes_.size() + 63) / 64;
    const size_t rank = boxes_.empty() ? 0 : boxes_[0].box.size();
    for (size_t d = 0; d < rank; ++d) AddDimension(d);
  }

  struct Cell {
    Box box;
    std::vector<HeldPartial> have, need;
  };

  // Calls fn(Cell) for every cell that somebody wants, in row-major order.
  template <typename Fn>
  void ForEachCell(const Fn& fn) const {
    if (boxes_.empty()) return;
    std::vector<std::vector<uint64_t>> masks(dimensions_.size() + 1,
                                             std::vector<uint64_t>(annotation_, ~uint64_t{0}));
    Cell cell;
    cell.box.resize(dimensions_.size());
    Visit(0, &masks, &cell, fn);
  }

 private:
  struct DistinctBox {
    Box box;
    bool target;
    std::vector<std::pair<int64_t, int>> held;  // (partial, device)
  };
  struct Interval {
    Range range;
    std::vector<uint64_t> covering;  // the boxes that cover it
  };

  void AddSide(const BoxingSide& side, bool target) {
    std::map<Box, size_t> index;
    for (size_t device = 0; device < side.shards.size(); ++device) {
      const BoxingShard& shard = side.shards[device];
      if (!shard.present || Volume(shard.box) == 0) continue;
      const auto [at, fresh] = index.emplace(shard.box, boxes_.size());
      if (fresh) boxes_.push_back({shard.box, target, {}});
      boxes_[at->second].held.emplace_back(shard.partial, static_cast<int>(device));
    }
  }

  void AddDimension(size_t d) {
    std::vector<int64_t> cuts;
    for (const DistinctBox& box : boxes_) {
      cuts.push_back(box.box[d].begin);
      cuts.push_back(box.box[d].end);
    }
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    std::vector<Interval>& intervals = dimensions_.emplace_back();
    for (size_t i = 0; i + 1 < cuts.size(); ++i) {
      Interval interval = {{cuts[i], cuts[i + 1]}, std::vector<uint64_t>(annotation_)};
      for (size_t b = 0; b < boxes_.size(); ++b) {
        const Range& range = boxes_[b].box[d];
        if (range.begin <= cuts[i] && cuts[i + 1] <= range.end) {
          interval.covering[b / 64] |= uint64_t{1} << (b % 64);
        }
      }
      intervals.push_back(std::move(interval));
    }
  }

  template <typename Fn>
  void Visit(size_t d, std::vector<std::vector<uint64_t>>* masks, Cell* cell, const Fn& fn) const {
    const std::vector<uint64_t>& mask = (*masks)[d];
    if (d == dimensions_.size()) {
      if (Collect(mask, cell)) fn(*cell);
      return;
    }
    for (const Interval& interval : dimensions_[d]) {
      uint64_t any = 0;
      for (size_t w = 0; w < annotation_; ++w) {
        any |= (*masks)[d + 1][w] = mask[w] & interval.covering[w];
      }
      if (any == 0) continue;
      cell->box[d] = interval.range;
      Visit(d + 1, masks, cell, fn);
    }
  }

  bool Collect(const std::vector<uint64_t>& mask, Cell* cell) const {
    std::vector<std::pair<int64_t, int>> held[2];
    for (size_t b = 0; b < boxes_.size(); ++b) {
      if (!(mask[b / 64] >> (b % 64) & 1)) continue;
      std::vector<std::pair<int64_t, int>>& side = held[boxes_[b].target];
      side.insert(side.end(), boxes_[b].held.begin(), boxes_[b].held.end());
    }
    if (held[1].empty()) return false;
    for (int side = 0; side < 2; ++side) {
      std::sort(held[side].begin(), held[side].end());
      std::vector<HeldPartial>& partials = side == 0 ? cell->have : cell->need;
      partials.clear();
      for (const auto& entry : held[side]) {
        if (partials.empty() || partials.back().partial != entry.first) {
          partials.push_back({entry.first, {}});
        }
        partials.back().devices.push_back(entry.second);
      }
    }
    return true;
  }

  std::vector<DistinctBox> boxes_;
  std::vector<std::vector<Interval>> dimensions_;
  size_t annotation_ = 0;
};

// One way to serve a cell: sets of source partials and the wanted partial that each set goes into,
// as indices into the cell's lists.
struct Assignment {
  std::vector<int> from;
  int to = 0;
};
using Option = std::vector<Assignment>;

// The fewest transfers of one element that bring the fold of `from` to all wanters of `to`.
int64_t Transfers(const CellGrid::Cell& cell, const std::vector<int>& from, int to) {
  const std::vector<int>& want = cell.need[to].devices;
  const int64_t wanters = static_cast<int64_t>(want.size());
  if (from.size() == 1) return wanters - CommonCount(want, cell.have[from[0]].devices);
  bool at_home = false;
  for (int k : from) at_home = at_home || CommonCount(want, cell.have[k].devices) > 0;
  return static_cast<int64_t>(from.size()) + wanters - 1 - (at_home ? 1 : 0);
}

// Digits of a partial along the chosen P axes only.
int64_t Digits(int64_t partial, const std::vector<int64_t>& sizes, const std::vector<int>& axes) {
  int64_t result = 0;
  for (int axis : axes) {
    int64_t inner = 1;
    for (size_t a = axis + 1; a < sizes.size(); ++a) inner *= sizes[a];
    result = result * sizes[axis] + partial / inner % sizes[axis];
  }
  return result;
}

// Keeps the outer P axes of the source, matched to target axes of equal size, and reduces each
// remaining subtree whole into the wanted partial where that is cheapest.
Option KeepOuter(const BoxingProblem& problem, const CellGrid::Cell& cell,
                 const std::vector<int>& target_axes) {
  const std::vector<int64_t>& sizes = problem.source.partial_sizes;
  int64_t subtrees = 1, each = 1;
  for (size_t a = 0; a < sizes.size(); ++a) (a < target_axes.size() ? subtrees : each) *= sizes[a];
  Option option;
  for (int64_t q = 0; q < subtrees; ++q) {
    Assignment best;
    for (size_t k = 0; k < cell.have.size(); ++k) {
      if (cell.have[k].partial / each == q) best.from.push_back(static_cast<int>(k));
    }
    int64_t least = -1;
    for (size_t m = 0; m < cell.need.size(); ++m) {
      if (Digits(cell.need[m].partial, problem.target.partial_sizes, target_axes) != q) continue;
      const int64_t price = Transfers(cell, best.from, static_cast<int>(m));
      if (least < 0 || price < least) {
        least = price;
        best.to = static_cast<int>(m);
      }
    }
    option.push_back(std::move(best));
  }
  return option;
}

// All matchings of 1, 2, ... outer source axes to target axes, both in order.
void AddKeepOuter(const BoxingProblem& problem, const CellGrid::Cell& cell,
                  std::vector<int>* chosen, std::vector<Option>* options) {
  const size_t depth = chosen->size();
  if (depth > 0) options->push_back(KeepOuter(problem, cell, *chosen));
  if (depth == problem.source.partial_sizes.size()) return;
  const std::vector<int64_t>& sizes = problem.target.partial_sizes;
  for (size_t a = depth == 0 ? 0 : chosen->back() + 1; a < sizes.size(); ++a) {
    if (sizes[a] != problem.source.partial_sizes[depth]) continue;
    chosen->push_back(static_cast<int>(a));
    AddKeepOuter(problem, cell, chosen, options);
    chosen->pop_back();
  }
}

// Where the order is free, every partial goes where it already is.
Option StayHome(const CellGrid::Cell& cell) {
  const int have = static_cast<int>(cell.have.size()), need = static_cast<int>(cell.need.size());
  std::vector<std::vector<int>> shared(have, std::vector<int>(need));
  std::vector<std::pair<int, int>> order;  // most shared first
  for (int k = 0; k < have; ++k) {
    for (int m = 0; m < need; ++m) {
      shared[k][m] = CommonCount(cell.have[k].devices, cell.need[m].devices);
    }
    order.emplace_back(-*std::max_element(shared[k].begin(), shared[k].end()), k);
  }
  std::sort(order.begin(), order.end());
  std::vector<std::vector<int>> into(need);
  for (const auto& entry : order) {
    const int k = entry.second;
    int best = 0;
    const auto score = [&](int m) {
      return std::make_tuple(shared[k][m], !into[m].empty(), -static_cast<int>(into[m].size()));
    };
    for (int m = 1; m < need; ++m) {
      if (score(m) > score(best)) best = m;
    }
    into[best].push_back(k);
  }
  Option option;
  for (int m = 0; m < need; ++m) {
    std::sort(into[m].begin(), into[m].end());
    if (!into[m].empty()) option.push_back({into[m], m});
  }
  return option;
}

// The cheapest options; equal ones share the cell, unless moving nothing or several targets at once
// is already spread out.
std::vector<Option> BestOptions(const BoxingProblem& problem, const CellGrid::Cell& cell) {
  std::vector<Option> options;
  if (cell.need.size() > 1 && problem.source.reduction == problem.target.reduction) {
    std::vector<int> chosen;
    AddKeepOuter(problem, cell, &chosen, &options);
    if (OrderIsFree(problem.source.reduction)) options.push_back(StayHome(cell));
  }
  std::vector<int> all(cell.have.size());
  for (size_t k = 0; k < all.size(); ++k) all[k] = static_cast<int>(k);
  for (size_t m = 0; m < cell.need.size(); ++m) options.push_back({{all, static_cast<int>(m)}});
  if (options.size() == 1) return options;

  std::vector<int64_t> prices;
  for (const Option& option : options) {
    int64_t price = 0;
    for (const Assignment& each : option) price += Transfers(cell, each.from, each.to);
    prices.push_back(price);
  }
  const int64_t least = *std::min_element(prices.begin(), prices.end());
  std::vector<Option> best;
  for (size_t i = 0; i < options.size(); ++i) {
    if (prices[i] == least) best.push_back(std::move(options[i]));
  }
  if (least == 0 || best[0].size() > 1) best.resize(1);
  return best;
}

}  // namespace

bool Chop(const Box& box, int64_t n, int64_t i, Box* piece) {
  *piece = box;
  if (n == 1) return true;
  if (box.empty()) return i == 0;
  size_t longest = 0;
  for (size_t d = 1; d < box.size(); ++d) {
    if (box[d].size() > box[longest].size()) longest = d;
  }
  (*piece)[longest] = Cut(box[longest], n, i);
  return (*piece)[longest].size() > 0;
}

std::vector<BoxingTarget> BoxingTargets(const BoxingProblem& problem) {
  std::vector<BoxingTarget> targets;
  int rotation = 0;
  const auto is_wanted = [&](const CellGrid::Cell& cell) {
    for (const HeldPartial& need : cell.need) {
      for (int device : need.devices) {
        if (problem.Wanted(device)) return true;
      }
    }
    return false;
  };
  CellGrid(problem).ForEachCell([&](const CellGrid::Cell& cell) {
    if (!is_wanted(cell)) return;
    SLUICE_CHECK(!cell.have.empty()) << "nobody holds " << BoxToString(cell.box);
    const std::vector<Option> options = BestOptions(problem, cell);
    for (size_t i = 0; i < options.size(); ++i) {
      BoxingTarget target;
      target.rotation = rotation;
      if (!Chop(cell.box, static_cast<int64_t>(options.size()), static_cast<int64_t>(i),
                &target.box)) {
        continue;
      }
      for (const Assignment& assignment : options[i]) {
        target.held.clear();
        for (int k : assignment.from) target.held.push_back(cell.have[k]);
        target.wanters = cell.need[assignment.to].devices;
        targets.push_back(target);
      }
    }
    ++rotation;
  });
  return targets;
}

int64_t TreeCut(int64_t low, int64_t high, absl::Span<const int64_t> partial_sizes) {
  // The largest inner subtree that is smaller than this node.
  int64_t unit = 1, inner = 1;
  for (size_t a = partial_sizes.size(); a-- > 1;) {
    inner *= partial_sizes[a];
    if (inner < high - low) unit = inner;
  }
  int64_t power = 1;
  while (power * 2 < (high - low) / unit) power *= 2;
  return low + unit * power;
}

bool IsSubtree(int64_t low, int64_t high, absl::Span<const int64_t> partial_sizes) {
  int64_t node_low = 0, node_high = 1;
  for (int64_t size : partial_sizes) node_high *= size;
  while (node_low != low || node_high != high) {
    if (node_high - node_low < 2) return false;
    const int64_t cut = TreeCut(node_low, node_high, partial_sizes);
    if (high <= cut) {
      node_high = cut;
    } else if (low >= cut) {
      node_low = cut;
    } else {
      return false;
    }
  }
  return true;
}

namespace {

// Folds ranges [first, last), which tile the node [low, high).
void AppendFold(const std::vector<FoldRange>& ranges, int first, int last, int64_t low,
                int64_t high, absl::Span<const int64_t> partial_sizes, std::vector<int>* order) {
  if (last - first == 1) {
    order->push_back(first);
    return;
  }
  SLUICE_CHECK(last - first > 1 && high - low > 1) << "partials that tile no subtree";
  const int64_t cut = TreeCut(low, high, partial_sizes);
  int middle = first;
  while (middle < last && ranges[middle].high <= cut) ++middle;
  SLUICE_CHECK(middle > first && middle < last && ranges[middle].low == cut)
      << "a range across the cut at " << cut;
  AppendFold(ranges, first, middle, low, cut, partial_sizes, order);
  AppendFold(ranges, middle, last, cut, high, partial_sizes, order);
  order->push_back(-1);
}

}  // namespace

std::vector<int> FoldOrder(const std::vector<FoldRange>& ranges, Reduction reduction,
                           absl::Span<const int64_t> partial_sizes) {
  std::vector<int> order;
  if (OrderIsFree(reduction)) {
    for (size_t i = 0; i < ranges.size(); ++i) {
      order.push_back(static_cast<int>(i));
      if (i > 0) order.push_back(-1);
    }
    return order;
  }
  AppendFold(ranges, 0, static_cast<int>(ranges.size()), ranges.front().low, ranges.back().high,
             partial_sizes, &order);
  return order;
}

}  // namespace sluice
