#include "framework/sbp/boxing_moves.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "framework/base/log.h"

namespace sluice {
namespace {

bool Contains(const std::vector<int>& ascending, int value) {
  return std::binary_search(ascending.begin(), ascending.end(), value);
}

// Partials that are already folded, somewhere: the range, the devices and their buffer.
struct Folded {
  FoldRange range;
  std::vector<int> devices;
  MoveBuffer buffer = MoveBuffer::kSource;
};

// The partials that one node folds for a target, and its devices that hold any of them.
struct NodeShare {
  int64_t node = 0;
  std::vector<HeldPartial> held;  // devices of the node only
  std::vector<int> members;
};

class GeneralForm {
 public:
  GeneralForm(const BoxingProblem& problem, BoxingForm form)
      : problem_(problem), form_(form), sent_(problem.nodes.size()) {}

  Moves Run(const std::vector<BoxingTarget>& targets) {
    for (const BoxingTarget& target : targets) {
      if (target.held.size() == 1) {
        const HeldPartial& only = target.held[0];
        Spread(AddBox(target.box),
               {{only.partial, only.partial + 1}, only.devices, MoveBuffer::kSource},
               target.wanters, target.rotation);
      } else if (form_ == BoxingForm::kDirect) {
        const int box = AddBox(target.box);
        for (int to : target.wanters) FetchAll(box, to, MoveBuffer::kHome, target.held);
      } else if (form_ == BoxingForm::kTwoLevel) {
        ReduceInNodes(target);
      } else {
        ReduceOnce(target);
      }
    }
    moves_.identity = IsIdentity();
    return std::move(moves_);
  }

 private:
  int AddBox(const Box& box) {
    moves_.boxes.push_back(box);
    moves_.volumes.push_back(Volume(box));
    return static_cast<int>(moves_.boxes.size()) - 1;
  }

  // One copy of `source` goes to a device: its own if it has one, else from the same node, from who
  // has sent least so far, from the next one in the circle.
  void Fetch(int box, int to, MoveBuffer write, const Folded& source) {
    if (!problem_.Wanted(to)) return;
    int from = to;
    if (!Contains(source.devices, to)) {
      const int count = static_cast<int>(sent_.size());
      const auto price = [&](int device) {
        return std::make_tuple(problem_.nodes[device] != problem_.nodes[to], sent_[device],
                               (device - to + count) % count);
      };
      from = source.devices[0];
      for (int device : source.devices) {
        if (price(device) < price(from)) from = device;
      }
      sent_[from] += moves_.volumes[box];
    }
    moves_.steps[kWriteStep[static_cast<int>(write)]].push_back(
        {from, to, box, source.range, source.buffer, write});
  }

  void FetchAll(int box, int to, MoveBuffer write, const std::vector<HeldPartial>& held) {
    if (!problem_.Wanted(to)) return;
    for (const HeldPartial& each : held) {
      Fetch(box, to, write, {{each.partial, each.partial + 1}, each.devices, MoveBuffer::kSource});
    }
  }

  // Brings a folded box to all who want it.
  void Spread(int box, const Folded& source, const std::vector<int>& wanters, int rotation) {
    const bool wanted = source.buffer == MoveBuffer::kHome;  // its devices have it where they want
    if (form_ == BoxingForm::kTwoLevel) return SpreadInNodes(box, source, wanters, rotation);
    const MoveBuffer write = form_ == BoxingForm::kDirect ? MoveBuffer::kHome : MoveBuffer::kLast;
    for (int to : wanters) {
      if (!problem_.Wanted(to)) continue;
      if (!wanted || !Contains(source.devices, to)) Fetch(box, to, write, source);
    }
  }

  void SpreadInNodes(int box, const Folded& source, const std::vector<int>& wanters, int rotation) {
    std::set<int64_t> near;
    for (int device : source.devices) near.insert(problem_.nodes[device]);
    std::map<int64_t, std::vector<int>> far;
    for (int to : wanters) {
      if (source.buffer == MoveBuffer::kHome && Contains(source.devices, to)) continue;
      if (near.count(problem_.nodes[to]) > 0) {
        Fetch(box, to, MoveBuffer::kEntry, source);
      } else {
        far[problem_.nodes[to]].push_back(to);
      }
    }
    for (const auto& [node, devices] : far) {
      const int count = static_cast<int>(devices.size());
      for (int i = 0; i < count; ++i) {
        Box piece;
        if (!Chop(moves_.boxes[box], count, i, &piece)) continue;
        const int piece_box = AddBox(piece), entry = devices[(i + rotation) % count];
        Fetch(piece_box, entry, MoveBuffer::kEntry, source);
        const Folded entered = {source.range, {entry}, MoveBuffer::kEntry};
        for (int to : devices) {
          if (to != entry) Fetch(piece_box, to, MoveBuffer::kLast, entered);
        }
      }
    }
  }

  // kHome, kSource: cuts the box over the devices that reduce it.
  void ReduceOnce(const BoxingTarget& target) {
    std::vector<int> homes;
    for (const HeldPartial& each : target.held) {
      homes.insert(homes.end(), each.devices.begin(), each.devices.end());
    }
    std::sort(homes.begin(), homes.end());
    homes.erase(std::unique(homes.begin(), homes.end()), homes.end());
    if (form_ == BoxingForm::kHome) {
      std::vector<int> both;
      std::set_intersection(homes.begin(), homes.end(), target.wanters.begin(),
                            target.wanters.end(), std::back_inserter(both));
      homes = both.empty() ? target.wanters : both;
    }
    const int count = static_cast<int>(homes.size());
    for (int i = 0; i < count; ++i) {
      Box piece;
      if (!Chop(target.box, count, i, &piece)) continue;
      const int home = homes[(i + target.rotation) % count], box = AddBox(piece);
      const MoveBuffer write =
          Contains(target.wanters, home) ? MoveBuffer::kHome : MoveBuffer::kTransit;
      FetchAll(box, home, write, target.held);
      Spread(box, {{}, {home}, write}, target.wanters, target.rotation);
    }
  }

  // Deals the partials to few nodes, first those that hold much of what is left, or want it.
  std::vector<NodeShare> Shares(const BoxingTarget& target) const {
    std::map<int64_t, std::set<int>> at;  // node -> indices of partials that it holds
    for (size_t k = 0; k < target.held.size(); ++k) {
      for (int device : target.held[k].devices) {
        at[problem_.nodes[device]].insert(static_cast<int>(k));
      }
    }
    std::set<int64_t> wanting;
    for (int device : target.wanters) wanting.insert(problem_.nodes[device]);
    std::vector<NodeShare> shares;
    while (!at.empty()) {
      auto best = at.begin();
      for (auto it = at.begin(); it != at.end(); ++it) {
        if (std::make_pair(it->second.size(), wanting.count(it->first)) >
            std::make_pair(best->second.size(), wanting.count(best->first))) {
          best = it;
        }
      }
      if (best->second.empty()) break;
      NodeShare share;
      share.node = best->first;
      const std::set<int> taken = best->second;
      std::set<int> members;
      for (int k : taken) {
        HeldPartial inside = {target.held[k].partial, {}};
        for (int device : target.held[k].devices) {
          if (problem_.nodes[device] == share.node) inside.devices.push_back(device);
        }
        members.insert(inside.devices.begin(), inside.devices.end());
        share.held.push_back(std::move(inside));
      }
      share.members.assign(members.begin(), members.end());
      shares.push_back(std::move(share));
      for (auto& entry : at) {
        for (int k : taken) entry.second.erase(k);
      }
    }
    return shares;
  }

  bool MayFold(const NodeShare& share) const {
    return share.held.size() > 1 &&
           (OrderIsFree(problem_.source.reduction) ||
            (share.held.back().partial - share.held.front().partial + 1 ==
                 static_cast<int64_t>(share.held.size()) &&
             IsSubtree(share.held.front().partial, share.held.back().partial + 1,
                       problem_.source.partial_sizes)));
  }

  void ReduceInNodes(const BoxingTarget& target) {
    const std::vector<NodeShare> shares = Shares(target);
    int widest = 0;
    for (const NodeShare& share : shares) {
      widest = std::max(widest, static_cast<int>(share.members.size()));
    }
    const int pieces = widest * static_cast<int>(shares.size());
    for (int i = 0; i < pieces; ++i) {
      Box piece;
      if (!Chop(target.box, pieces, i, &piece)) continue;
      ReducePiece(target, shares, AddBox(piece), i, i / widest);
    }
  }

  void ReducePiece(const BoxingTarget& target, const std::vector<NodeShare>& shares, int box,
                   int turn, int home_turn) {
    std::vector<Folded> folded;
    for (const NodeShare& share : shares) {
      const int home = share.members[(turn + target.rotation) % share.members.size()];
      if (MayFold(share)) {
        FetchAll(box, home, MoveBuffer::kNode, share.held);
        folded.push_back({{share.held.front().partial, share.held.back().partial + 1},
                          {home},
                          MoveBuffer::kNode});
        continue;
      }
      for (const HeldPartial& mine : share.held) {
        // Not folded here: any holder will do, in other nodes too.
        const auto anywhere =
            std::find_if(target.held.begin(), target.held.end(),
                         [&](const HeldPartial& each) { return each.partial == mine.partial; });
        folded.push_back(
            {{mine.partial, mine.partial + 1}, anywhere->devices, MoveBuffer::kSource});
      }
    }
    if (folded.size() == 1) {
      return Spread(box, folded[0], target.wanters, turn + target.rotation);
    }
    std::sort(folded.begin(), folded.end(),
              [](const Folded& a, const Folded& b) { return a.range.low < b.range.low; });
    std::set<int> candidates;
    for (const Folded& each : folded) {
      for (int device : each.devices) {
        if (Contains(target.wanters, device)) candidates.insert(device);
      }
    }
    const std::vector<int> homes = candidates.empty()
                                       ? folded[0].devices
                                       : std::vector<int>(candidates.begin(), candidates.end());
    const int home = homes[(home_turn + target.rotation) % homes.size()];
    const MoveBuffer write =
        Contains(target.wanters, home) ? MoveBuffer::kHome : MoveBuffer::kTransit;
    for (const Folded& each : folded) Fetch(box, home, write, each);
    Spread(box, {{}, {home}, write}, target.wanters, turn + target.rotation);
  }

  // Whether all moves stay at home (then nothing is folded: a device holds one partial) and leave
  // each shard as it was.
  bool IsIdentity() const {
    const size_t devices = problem_.nodes.size();
    if (!problem_.wanted.empty()) return devices == 1;  // an even shard of several always changes
    std::vector<int64_t> kept(devices);
    for (const std::vector<Move>& step : moves_.steps) {
      for (const Move& move : step) {
        if (move.from != move.to || move.read != MoveBuffer::kSource) return false;
        kept[move.to] += moves_.volumes[move.box];
      }
    }
    for (size_t d = 0; d < devices; ++d) {
      const BoxingShard& want = problem_.target.shards[d];
      if (!want.present) continue;
      const BoxingShard& have = problem_.source.shards[d];
      if (!have.present || have.box != want.box || kept[d] != Volume(want.box)) return false;
    }
    return true;
  }

  const BoxingProblem& problem_;
  const BoxingForm form_;
  Moves moves_;
  std::vector<int64_t> sent_;  // elements, by device: so that load spreads
};

}  // namespace

Moves GeneralMoves(const BoxingProblem& problem, const std::vector<BoxingTarget>& targets,
                   BoxingForm form) {
  return GeneralForm(problem, form).Run(targets);
}

BoxingCost CostOf(const StepLoad& load, DType dtype, const Machine& machine) {
  const int64_t element = SizeOf(dtype);
  int64_t wire = 0;
  if (load.crossing > 0) {
    wire =
        machine.latency_nanoseconds + std::max(machine.LinkNanoseconds(load.near * element, false),
                                               machine.LinkNanoseconds(load.far * element, true));
  }
  // A local element is read and written.
  const double copy =
      static_cast<double>(2 * load.local * element) / machine.memory_bytes_per_second;
  return {std::max(wire, static_cast<int64_t>(copy * 1e9)), load.crossing * element};
}

std::vector<BoxingCost> StepCosts(const Moves& moves, const BoxingProblem& problem, DType dtype,
                                  const Machine& machine) {
  std::vector<BoxingCost> costs;
  struct Port {
    int64_t in[2] = {0, 0}, out[2] = {0, 0}, local = 0;  // elements; [between nodes]
  };
  std::vector<Port> ports;
  const std::vector<Move>* last = nullptr;
  for (const std::vector<Move>& step : moves.steps) {
    if (!step.empty()) last = &step;
  }
  for (const std::vector<Move>& step : moves.steps) {
    if (step.empty()) continue;
    ports.assign(problem.nodes.size(), Port());
    int64_t crossing = 0;
    for (const Move& move : step) {
      const int64_t volume = moves.volumes[move.box];
      if (move.from == move.to) {
        ports[move.to].local += volume;
        continue;
      }
      const bool far = problem.nodes[move.from] != problem.nodes[move.to];
      ports[move.from].out[far] += volume;
      ports[move.to].in[far] += volume;
      crossing += volume;
    }
    if (&step == last && problem.target.reduction != Reduction::kNone) {
      // Wanted partials are written whole, mostly with the identity.
      for (size_t d = 0; d < ports.size(); ++d) {
        const BoxingShard& shard = problem.target.shards[d];
        if (shard.present) ports[d].local = std::max(ports[d].local, Volume(shard.box));
      }
    }
    int64_t busiest[2] = {0, 0}, local = 0;
    for (const Port& port : ports) {
      for (int far = 0; far < 2; ++far) {
        busiest[far] = std::max({busiest[far], port.in[far], port.out[far]});
      }
      local = std::max(local, port.local);
    }
    costs.push_back(CostOf({local, busiest[0], busiest[1], crossing}, dtype, machine));
  }
  return costs;
}

void StageCost::Add(const std::vector<BoxingCost>& steps, bool identity, int64_t times) {
  identity_ = identity_ && identity;
  if (steps_.size() < steps.size()) steps_.resize(steps.size());
  for (size_t i = 0; i < steps.size(); ++i) {
    steps_[i].nanoseconds = std::max(steps_[i].nanoseconds, steps[i].nanoseconds);
    steps_[i].bytes += steps[i].bytes * times;
  }
}

BoxingCost StageCost::Sum(const Machine& machine) const {
  BoxingCost sum;
  if (identity_) return sum;
  for (const BoxingCost& step : steps_) {
    sum = sum + BoxingCost{step.nanoseconds + machine.launch_nanoseconds, step.bytes};
  }
  return sum;
}

}  // namespace sluice
