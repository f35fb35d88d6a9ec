// Closed forms of recipes along an axis. Groups along it hold the tensor once for every replica
// along the other axes; so a sum over all groups of what a group holds is the tensor times those
// replicas, exactly, for uneven shards too. The busiest ports are those of the group at the origin:
// a balanced cut gives its first pieces the larger share, so that group is the largest.
#include <algorithm>
#include <map>

#include "framework/base/log.h"
#include "framework/sbp/canonical_tree.h"
#include "framework/sbp/phase_group.h"
#include "framework/sbp/phase_price.h"

namespace sluice {
namespace {

int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

// How many ranges have which length, after a range is cut by each of `shards` in turn.
std::map<int64_t, int64_t> LengthsAfter(int64_t extent, const std::vector<int64_t>& shards) {
  std::map<int64_t, int64_t> lengths = {{extent, 1}};
  for (int64_t n : shards) {
    std::map<int64_t, int64_t> next;
    for (const auto& [length, times] : lengths) {
      if (length % n > 0) next[length / n + 1] += times * (length % n);
      next[length / n] += times * (n - length % n);
    }
    lengths = std::move(next);
  }
  return lengths;
}

class AxisLoad {
 public:
  AxisLoad(const BoxingPhase& phase, const Shape& shape, const AxisNodes& nodes)
      : phase_(phase),
        shape_(shape),
        group_(phase, shape, 0),
        n_(group_.size),
        m_(nodes.inner),
        links_(nodes.links),
        volume_(Volume(group_.base)) {
    total_ = shape.NumElements() * Replicas();
    load_.exact_links = nodes.regular;
  }

  PhaseLoad Run() {
    switch (phase_.recipe) {
      case BoxingRecipe::kSlice:
        Step(0, 0, 0, Volume(group_.To(0)));
        load_.steps[0].in_place = SliceIsContiguous();
        break;
      case BoxingRecipe::kPad:
      case BoxingRecipe::kEmbed:
        Step(0, 0, 0, volume_);
        break;
      case BoxingRecipe::kAllGather:
        Cross((m_ - 1) * total_, (n_ - m_) * total_);
        Gather([&](int64_t i) { return Volume(group_.From(i)); });
        break;
      case BoxingRecipe::kAllGatherTwoLevel:
        GatherInTwoLevels();
        break;
      case BoxingRecipe::kAllGatherDoubling:
        Double();
        break;
      case BoxingRecipe::kAllToAll:
        Exchange();
        break;
      case BoxingRecipe::kReduceScatter:
        Cross((m_ - 1) * total_, (n_ - m_) * total_);
        FoldEach(Volume(group_.To(0)));
        break;
      case BoxingRecipe::kReduceScatterTwoLevel:
        Cross(n_ / m_ * (m_ - 1) * total_, (n_ / m_ - 1) * total_);
        Step((m_ - 1) * Column(0), 0, m_ - 1, Column(0));
        Step(0, (n_ / m_ - 1) * Volume(group_.To(0)), n_ / m_ - 1, Volume(group_.To(0)));
        break;
      case BoxingRecipe::kReduceScatterHalving:
        Halve();
        MoveToShard();
        break;
      case BoxingRecipe::kAllReduce:
        Cross(n_ * (m_ - 1) * total_, n_ * (n_ - m_) * total_);
        FoldEach(volume_);
        break;
      case BoxingRecipe::kAllReduceSplit:
        Cross(2 * (m_ - 1) * total_, 2 * (n_ - m_) * total_);
        FoldEach(group_.FlatPiece(n_, 0).size());
        Gather([&](int64_t i) { return group_.FlatPiece(n_, i).size(); });
        break;
      case BoxingRecipe::kAllReduceTwoLevel:
        ReduceInTwoLevels();
        break;
      case BoxingRecipe::kAllReduceHalving:
        Halve();
        GatherHalves();
        break;
      case BoxingRecipe::kCopy:
      case BoxingRecipe::kGeneral:
        SLUICE_CHECK(false) << "a phase between meshes has no axis";
    }
    return std::move(load_);
  }

 private:
  // How often the tensor lies on the mesh, the phase's own axis left out.
  int64_t Replicas() const {
    int64_t replicas = 1;
    for (size_t a = 0; a < phase_.to.sbp.size(); ++a) {
      if (static_cast<int>(a) != phase_.axis && !phase_.to.sbp[a].is_split()) {
        replicas *= phase_.to.mesh.axes()[a].size;
      }
    }
    return replicas;
  }

  void Cross(int64_t near, int64_t far) { load_.near += near, load_.far += far; }
  void Step(int64_t near, int64_t far, int64_t messages, int64_t local) {
    // What mixes both is direct: each device reads all others of its group.
    const int64_t far_messages = far == 0 ? 0 : near == 0 ? messages : n_ - m_;
    load_.steps.push_back({near, far, local, messages, far_messages, false, links_});
  }

  // Whether no dimension further out is longer than one on the first device; then it is on none.
  bool SliceIsContiguous() const {
    for (int d = 0; d < group_.to.dim; ++d) {
      if (group_.base[d].size() > 1) return false;
    }
    return true;
  }

  // Every device reads `held(i)` of every other: the one with the smallest of its own in the first
  // node reads most near, one of the last node most far.
  template <typename Held>
  void Gather(const Held& held) {
    int64_t all = 0, first = 0, last = 0;
    for (int64_t i = 0; i < n_; ++i) {
      const int64_t volume = held(i);
      all += volume, first += i < m_ ? volume : 0, last += i >= n_ - m_ ? volume : 0;
    }
    Step(first - held(m_ - 1), all - last, n_ - 1, held(0));
  }

  // Every device reads `volume` of every other.
  void FoldEach(int64_t volume) { Step((m_ - 1) * volume, (n_ - m_) * volume, n_ - 1, volume); }

  // What the devices at place `column` of all nodes hold together.
  int64_t Column(int64_t column) const {
    int64_t sum = 0;
    for (int64_t i = column; i < n_; i += m_) {
      sum += Volume(group_.from.is_split() ? group_.From(i) : group_.To(i));
    }
    return sum;
  }

  void GatherInTwoLevels() {
    const int64_t outer = n_ / m_;
    Cross(outer * (m_ - 1) * total_, (outer - 1) * total_);
    Step(0, Column(0) - Volume(group_.From(n_ - m_)), outer - 1, Volume(group_.From(0)));
    Step(volume_ - Column(m_ - 1), 0, m_ - 1, Column(0));
  }

  void ReduceInTwoLevels() {
    const int64_t outer = n_ / m_, piece = CeilDivide(volume_, m_);
    const int64_t crumb = CeilDivide(piece, outer);
    Cross(2 * outer * (m_ - 1) * total_, 2 * (outer - 1) * total_);
    Step((m_ - 1) * piece, 0, m_ - 1, piece);
    Step(0, (outer - 1) * crumb, outer - 1, crumb);
    Step(0, piece - piece / outer, outer - 1, crumb);
    Step(volume_ - volume_ / m_, 0, m_ - 1, piece);
  }

  // A node of the tree is inside a machine's node where it is no wider than the power of two of
  // neighbours that share one.
  bool IsNear(int level) const { return m_ == n_ || m_ % (int64_t{1} << level) == 0; }
  bool TellsNear() const { return m_ == n_ || PowerOfTwo(m_); }
  void Port(int level, int64_t volume, int64_t messages, int64_t local) {
    Step(IsNear(level) ? volume : 0, IsNear(level) ? 0 : volume, messages, local);
  }
  bool PowerOfTwo(int64_t n) const { return (n & (n - 1)) == 0; }

  void Double() {
    const int64_t near = TellsNear() ? m_ - 1 : 0;
    Cross(near * total_, (n_ - 1 - near) * total_);
    load_.exact_links &= TellsNear();
    int64_t first = 0;  // what the first devices hold, by which a level's left children begin
    for (int level = 1, i = 0; level <= TreeLevel(n_); ++level) {
      for (; i < (1 << (level - 1)); ++i) first += Volume(group_.From(i));
      Port(level, first, 1, first);
    }
  }

  // The width of the one node of a level that is no power of two, which stands last; or 0.
  int64_t OddNode(int level) const {
    for (int64_t width = n_; width > 1;) {
      const int at = TreeLevel(width);
      if (at == level) return PowerOfTwo(width) ? 0 : width;
      if (at < level) return 0;
      width -= int64_t{1} << (at - 1);
    }
    return 0;
  }

  // Elements of `extent` units of what is halved.
  int64_t OnLine(int64_t units) const {
    return group_.line == 0 ? 0 : units * (volume_ / group_.line);
  }

  // All nodes of a level fold: each moves what it holds once. The ranges of an odd node do not lie
  // inside those of its children; it may move everything twice.
  void CrossLevel(int level) {
    const int64_t odd = OddNode(level), width = int64_t{1} << level;
    const int64_t even = (n_ - odd) / width;
    const int64_t moved = (even + (odd > 0 ? 2 : 0)) * total_;
    IsNear(level) ? Cross(moved, 0) : Cross(0, moved);
    load_.exact_bytes &= odd == 0;
    load_.exact_links &= odd == 0 && TellsNear();
  }

  void Halve() {
    for (int level = 1; level <= TreeLevel(n_); ++level) {
      CrossLevel(level);
      const int64_t odd = OddNode(level), half = CeilDivide(group_.line, int64_t{1} << level);
      const int64_t volume = OnLine(odd > 0 ? 2 * CeilDivide(group_.line, odd) : half);
      Port(level, std::max(OnLine(half), volume), odd > 0 ? 4 : 1, OnLine(half));
    }
  }

  // Every element comes once to each device that has it not. With powers of two, the levels of the
  // tree in their reverse order; else neighbours in position are anywhere.
  void GatherHalves() {
    const int levels = TreeLevel(n_);
    const bool odd = !PowerOfTwo(n_);
    if (odd) m_ == n_ ? Cross((n_ - 1) * total_, 0) : Cross(0, (n_ - 1) * total_);
    load_.exact_links &= m_ == n_ || (!odd && TellsNear());
    for (int level = 1; level <= levels; ++level) {
      const int below = odd ? levels : levels - level + 1;
      if (!odd) {
        const int64_t moved = n_ / (int64_t{1} << below) * total_;
        IsNear(below) ? Cross(moved, 0) : Cross(0, moved);
      }
      const int64_t half = OnLine(CeilDivide(group_.line << (level - 1), n_));
      Port(below, half, 1, half);
    }
  }

  void MoveToShard() {
    const int64_t volume = Volume(group_.To(0));
    m_ == n_ ? Cross(total_, 0) : Cross(0, total_);
    Step(m_ == n_ ? volume : 0, m_ == n_ ? 0 : volume, 3, volume);
    load_.exact_bytes = load_.exact_links = false;
  }

  // Elements that a group which holds `x` by `y` of the two dimensions moves near and far, of one
  // index of all others; `ports`, if not null, are the most that one device reads.
  void ExchangeIn(int64_t x, int64_t y, int64_t* near, int64_t* far, PhaseStepLoad* port) const {
    for (int64_t node = 0; node < n_; node += m_) {
      const int64_t here = Cut({0, x}, n_, node + m_ - 1).end - Cut({0, x}, n_, node).begin;
      for (int64_t i = node; i < node + m_; ++i) {
        const int64_t own = Cut({0, x}, n_, i).size(), gets = Cut({0, y}, n_, i).size();
        *near += gets * (here - own), *far += gets * (x - here);
        if (port == nullptr) continue;
        port->near = std::max(port->near, gets * (here - own));
        port->far = std::max(port->far, gets * (x - here));
        port->local = std::max(port->local, gets * own);
      }
    }
  }

  // Both dimensions may be cut by outer axes, unevenly; any other one adds up to its whole extent.
  void Exchange() {
    const int d = group_.from.dim, e = group_.to.dim;
    std::vector<int64_t> cuts_d, cuts_e;
    for (size_t a = 0; a < phase_.to.sbp.size(); ++a) {
      const Sbp sbp = phase_.to.sbp[a];
      if (static_cast<int>(a) == phase_.axis || !sbp.is_split()) continue;
      if (sbp.dim == d) cuts_d.push_back(phase_.to.mesh.axes()[a].size);
      if (sbp.dim == e) cuts_e.push_back(phase_.to.mesh.axes()[a].size);
    }
    int64_t others = Replicas(), span = 1;
    for (int k = 0; k < shape_.rank(); ++k) {
      if (k == d || k == e) continue;
      others *= shape_[k];
      span *= group_.base[k].size();
    }
    for (const auto& [x, times_x] : LengthsAfter(shape_[d], cuts_d)) {
      for (const auto& [y, times_y] : LengthsAfter(shape_[e], cuts_e)) {
        int64_t near = 0, far = 0;
        ExchangeIn(x, y, &near, &far, nullptr);
        Cross(near * times_x * times_y * others, far * times_x * times_y * others);
      }
    }
    PhaseStepLoad port;
    int64_t near = 0, far = 0;
    ExchangeIn(group_.base[d].size(), group_.base[e].size(), &near, &far, &port);
    Step(port.near * span, port.far * span, n_ - 1, port.local * span);
  }

  const BoxingPhase& phase_;
  const Shape& shape_;
  const PhaseGroup group_;
  const int64_t n_, m_;
  const NearAndFar links_;
  const int64_t volume_;  // of the largest group
  int64_t total_ = 0;     // of all groups
  PhaseLoad load_;
};

}  // namespace

PhaseLoad AxisLoadOf(const BoxingPhase& phase, const Shape& shape, const AxisNodes& nodes) {
  return AxisLoad(phase, shape, nodes).Run();
}

}  // namespace sluice
