// Who reads a device, recipe by recipe: the inverse of phase_steps.cc. A region that is empty has
// no reader, on both ends by the same test, else acks would be counted that never come.
#include <algorithm>

#include "framework/base/log.h"
#include "framework/sbp/boxing_phase.h"
#include "framework/sbp/canonical_tree.h"
#include "framework/sbp/phase_group.h"

namespace sluice {
namespace {

class Inversion {
 public:
  Inversion(const BoxingPhase& phase, const Shape& shape, int64_t device)
      : phase_(phase), group_(phase, shape, device), readers_(PhaseStepCount(phase)) {}

  std::vector<std::vector<int64_t>> Run() {
    switch (phase_.recipe) {
      case BoxingRecipe::kSlice:
      case BoxingRecipe::kPad:
      case BoxingRecipe::kEmbed:
        break;
      case BoxingRecipe::kAllGather:
      case BoxingRecipe::kAllToAll:
      case BoxingRecipe::kReduceScatter:
      case BoxingRecipe::kAllReduce:
        for (int64_t i = 0; i < group_.size; ++i) {
          AddIf(Volume(Intersect(group_.From(group_.place), group_.To(i))) > 0, 0, i);
        }
        break;
      case BoxingRecipe::kAllGatherTwoLevel:
        InColumn(0, [&](int64_t) { return Volume(group_.From(group_.place)) > 0; });
        InNode(1, [&](int64_t) { return HasColumn(group_.from, group_.place); });
        break;
      case BoxingRecipe::kReduceScatterTwoLevel:
        InNode(0, [&](int64_t i) { return HasColumn(group_.to, i); });
        InColumn(1, [&](int64_t i) { return Volume(group_.To(i)) > 0; });
        break;
      case BoxingRecipe::kAllReduceSplit:
        for (int64_t i = 0; i < group_.size; ++i) {
          AddIf(group_.FlatPiece(group_.size, i).size() > 0, 0, i);
          AddIf(group_.FlatPiece(group_.size, group_.place).size() > 0, 1, i);
        }
        break;
      case BoxingRecipe::kAllReduceTwoLevel:
        OfTwoLevels();
        break;
      case BoxingRecipe::kAllGatherDoubling:
        OfDoubling();
        break;
      case BoxingRecipe::kReduceScatterHalving:
        OfFoldingUp();
        OfMovingToShard();
        break;
      case BoxingRecipe::kAllReduceHalving:
        OfFoldingUp();
        OfGatheringDown();
        break;
      case BoxingRecipe::kCopy:
      case BoxingRecipe::kGeneral:
        SLUICE_CHECK(false) << "a phase between meshes has no group";
    }
    for (std::vector<int64_t>& step : readers_) {
      std::sort(step.begin(), step.end());
      step.erase(std::unique(step.begin(), step.end()), step.end());
    }
    return std::move(readers_);
  }

 private:
  void AddIf(bool reads, int step, int64_t i) {
    if (reads && i != group_.place) readers_[step].push_back(group_.Peer(i));
  }

  template <typename Reads>
  void InNode(int step, const Reads& reads) {
    const int64_t node = group_.place / group_.inner * group_.inner;
    for (int64_t i = node; i < node + group_.inner; ++i) AddIf(reads(i), step, i);
  }
  template <typename Reads>
  void InColumn(int step, const Reads& reads) {
    for (int64_t i = group_.place % group_.inner; i < group_.size; i += group_.inner) {
      AddIf(reads(i), step, i);
    }
  }

  // Shards get no larger along an axis: where the first of a column is empty, all of it is.
  bool HasColumn(Sbp sbp, int64_t i) const {
    const int64_t first = i % group_.inner;
    return Volume(sbp == group_.from ? group_.From(first) : group_.To(first)) > 0;
  }

  void OfTwoLevels() {
    const int64_t inner = group_.inner, outer = group_.outer();
    const int64_t column = group_.place % inner, node = group_.place / inner;
    const Range near = group_.FlatPiece(inner, column);
    InNode(0, [&](int64_t i) { return group_.FlatPiece(inner, i % inner).size() > 0; });
    InColumn(1, [&](int64_t i) { return Cut(near, outer, i / inner).size() > 0; });
    InColumn(2, [&](int64_t) { return Cut(near, outer, node).size() > 0; });
    InNode(3, [&](int64_t) { return near.size() > 0; });
  }

  void OfDoubling() {
    Box held = group_.From(group_.place);
    for (int level = 1; level <= TreeLevel(group_.size); ++level) {
      const std::optional<TreeNode> node = TreeNodeAt(group_.size, group_.place, level);
      if (!node) continue;
      if (Volume(held) > 0) {
        ForEachTreeReader(*node, group_.place, [&](int64_t i) { AddIf(true, level - 1, i); });
      }
      const int d = group_.from.dim;
      held[d] = {group_.From(node->low)[d].begin, group_.From(node->high - 1)[d].end};
    }
  }

  // Whether any element lies in a range of what is halved.
  bool Solid() const { return Volume(group_.base) > 0; }

  void OfFoldingUp() {
    for (int level = 1; Solid() && level <= TreeLevel(group_.size); ++level) {
      const std::optional<TreeNode> node = TreeNodeAt(group_.size, group_.place, level);
      if (!node) continue;
      ForEachTreeOwner(node->width(), group_.line, HalvedRange(group_, level - 1),
                       [&](int64_t i, Range) { AddIf(true, level - 1, node->low + i); });
    }
  }

  void OfGatheringDown() {
    const int64_t position = TreePosition(group_.size, group_.place);
    const int levels = TreeLevel(group_.size);
    for (int level = 1; level <= levels; ++level) {
      const std::optional<TreeNode> node = TreeNodeAt(group_.size, position, level);
      if (!node || GatheredRange(group_, level - 1).size() == 0) continue;
      ForEachTreeReader(*node, position, [&](int64_t i) {
        AddIf(true, levels + level - 1, TreeDeviceAt(group_.size, i));
      });
    }
  }

  void OfMovingToShard() {
    const int levels = TreeLevel(group_.size);
    const Range mine = HalvedRange(group_, levels);
    if (!Solid() || mine.size() == 0) return;
    for (int64_t i = CutAround({0, group_.line}, group_.size, mine.begin); i < group_.size; ++i) {
      const Range wanted = Cut({0, group_.line}, group_.size, i);
      if (wanted.begin >= mine.end) break;
      AddIf(wanted.size() > 0, levels, i);
    }
  }

  const BoxingPhase& phase_;
  const PhaseGroup group_;
  std::vector<std::vector<int64_t>> readers_;
};

}  // namespace

std::vector<std::vector<int64_t>> PhaseReaders(const BoxingPhase& phase, const Shape& shape,
                                               int64_t device) {
  if (phase.axis < 0) return {WholeMeshReaders(phase, shape, device)};
  return Inversion(phase, shape, device).Run();
}

}  // namespace sluice
