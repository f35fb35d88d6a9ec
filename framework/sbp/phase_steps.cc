// What one device writes, recipe by recipe.
//
// All-reduce by halving, four devices a b c d of eight elements. Step 1, nodes ab and cd: a folds
// [0, 4) of a and b, b folds [4, 8); c and d alike of c and d. Step 2, the root: a folds [0, 2) of
// its own (a + b) and of c's (c + d), c folds [2, 4), b [4, 6), d [6, 8): each element is now the
// sum (a + b) + (c + d), the canonical one. Steps 3 and 4 undo the halvings: a reads [2, 4) of c,
// then [4, 8) of b.
#include <utility>

#include "framework/base/log.h"
#include "framework/sbp/boxing_phase.h"
#include "framework/sbp/canonical_tree.h"
#include "framework/sbp/phase_group.h"

namespace sluice {
namespace {

class Expansion {
 public:
  Expansion(const BoxingPhase& phase, const Shape& shape, int64_t device)
      : phase_(phase),
        shape_(shape),
        device_(device),
        group_(phase, shape, device),
        writes_(PhaseStepCount(phase)) {
    for (size_t s = 0; s < writes_.size(); ++s) {
      writes_[s].pieces = PhasePieces(phase, shape, static_cast<int>(s) + 1, device);
    }
  }

  std::vector<PhaseWrite> Run() {
    switch (phase_.recipe) {
      case BoxingRecipe::kSlice:
      case BoxingRecipe::kEmbed:
        Copy(0, Intersect(Mine(group_.from), Mine(group_.to)), device_);
        break;
      case BoxingRecipe::kPad:
        if (group_.place == 0) Copy(0, group_.base, device_);
        break;
      case BoxingRecipe::kAllGather:
      case BoxingRecipe::kAllToAll:
        for (int64_t i = 0; i < group_.size; ++i) {
          Copy(0, Intersect(group_.From(i), Mine(group_.to)), group_.Peer(i));
        }
        break;
      case BoxingRecipe::kReduceScatter:
      case BoxingRecipe::kAllReduce:
        Fold(0, Mine(group_.to), {0, group_.size}, 1, 0);
        break;
      case BoxingRecipe::kAllGatherTwoLevel:
        GatherInTwoLevels();
        break;
      case BoxingRecipe::kReduceScatterTwoLevel:
        for (const Box& piece : writes_[0].pieces) FoldInNode(0, piece);
        Fold(1, Mine(group_.to), {0, group_.size}, group_.inner, group_.place % group_.inner);
        break;
      case BoxingRecipe::kAllReduceSplit:
        for (const Box& piece : writes_[0].pieces) Fold(0, piece, {0, group_.size}, 1, 0);
        for (int64_t i = 0; i < group_.size; ++i) {
          Copy(1, {group_.FlatPiece(group_.size, i)}, group_.Peer(i));
        }
        break;
      case BoxingRecipe::kAllReduceTwoLevel:
        ReduceInTwoLevels();
        break;
      case BoxingRecipe::kAllGatherDoubling:
        Double();
        break;
      case BoxingRecipe::kReduceScatterHalving:
        FoldUp();
        MoveToShard();
        break;
      case BoxingRecipe::kAllReduceHalving:
        FoldUp();
        GatherDown();
        break;
      case BoxingRecipe::kCopy:
      case BoxingRecipe::kGeneral:
        SLUICE_CHECK(false) << "a phase between meshes has no group";
    }
    for (PhaseWrite& write : writes_) FillRest(&write);
    return std::move(writes_);
  }

 private:
  Box Mine(Sbp sbp) const {
    return sbp == group_.from ? group_.From(group_.place) : group_.To(group_.place);
  }

  // What no region covers of a partial is the identity.
  void FillRest(PhaseWrite* write) const {
    int64_t left = 0;
    for (const Box& piece : write->pieces) left += Volume(piece);
    for (const PhaseRegion& region : write->regions) left -= Volume(region.box);
    write->fill_identity = left > 0;
    SLUICE_CHECK(left == 0 || (left > 0 && group_.to.is_partial()))
        << PhaseName(phase_) << " leaves " << left << " elements of " << shape_.ToString();
  }

  void Copy(int step, const Box& box, int64_t from) {
    if (Volume(box) > 0) writes_[step].regions.push_back({box, {{from, {0, 1}}}, {0}});
  }

  // The fold of `among`, of every `every`-th device from `start` on, each the fold of `every`.
  void Fold(int step, const Box& box, Range among, int64_t every, int64_t start) {
    if (Volume(box) == 0) return;
    PhaseRegion region = {box, {}, {}};
    std::vector<FoldRange> ranges;
    for (int64_t i = among.begin; i < among.end; i += every) {
      ranges.push_back({i, i + every});
      region.sources.push_back({group_.Peer(i + start), ranges.back()});
    }
    const int64_t sizes[] = {group_.size};
    region.fold = FoldOrder(ranges, group_.from.reduction, sizes);
    writes_[step].regions.push_back(std::move(region));
  }

  void FoldInNode(int step, const Box& box) {
    const int64_t node = group_.place / group_.inner * group_.inner;
    Fold(step, box, {node, node + group_.inner}, 1, 0);
  }

  // Four devices, nodes ab and cd. Step 1: a reads the shard of c, which stands at its place in the
  // other node, and b that of d: every shard enters a node once. Step 2: a reads of b, inside the
  // node, the two shards that b has then.
  void GatherInTwoLevels() {
    const int64_t column = group_.place % group_.inner, node = group_.place - column;
    for (int64_t i = column; i < group_.size; i += group_.inner) {
      Copy(0, group_.From(i), group_.Peer(i));
    }
    for (int64_t i = 0; i < group_.size; ++i) {
      Copy(1, group_.From(i), group_.Peer(node + i % group_.inner));
    }
  }

  // Eight elements, nodes ab and cd. Step 1, inside the nodes: a folds [0, 4) of a and b, b folds
  // [4, 8). Step 2, between them: a folds [0, 2) of its own a + b and of c's c + d, c folds [2, 4).
  // Steps 3 and 4 gather on the same way back: a reads [2, 4) of c, then [4, 8) of b. Quarters are
  // all that crosses between nodes; the halves of steps 1 and 4 stay inside.
  void ReduceInTwoLevels() {
    const int64_t inner = group_.inner, outer = group_.outer();
    const int64_t column = group_.place % inner, node = group_.place - column;
    for (const Box& piece : writes_[0].pieces) FoldInNode(0, piece);
    for (const Box& piece : writes_[1].pieces) Fold(1, piece, {0, group_.size}, inner, column);
    const Range near = group_.FlatPiece(inner, column);
    for (int64_t o = 0; o < outer; ++o) {
      Copy(2, {Cut(near, outer, o)}, group_.Peer(o * inner + column));
    }
    for (int64_t i = 0; i < inner; ++i) {
      Copy(3, {group_.FlatPiece(inner, i)}, group_.Peer(node + i));
    }
  }

  void CarryOn(int step) {
    for (const Box& piece : writes_[step].pieces) Copy(step, piece, device_);
  }

  // Four devices: a and b read each other's shard, then a and c the two that the other has by then.
  // Of three devices the last has no partner at first and carries its shard on.
  void Double() {
    for (int level = 1; level <= TreeLevel(group_.size); ++level) {
      const int step = level - 1;
      const std::optional<TreeNode> node = TreeNodeAt(group_.size, group_.place, level);
      if (!node) {
        CarryOn(step);
        continue;
      }
      const bool left = group_.place < node->middle;
      const int64_t other = group_.Peer(TreePartner(*node, group_.place));
      const auto block = [&](int64_t low, int64_t high) {
        Box box = group_.base;
        const int d = group_.from.dim;
        box[d] = {group_.From(low)[d].begin, group_.From(high - 1)[d].end};
        return box;
      };
      const Box lower = block(node->low, node->middle), upper = block(node->middle, node->high);
      Copy(step, lower, left ? device_ : other);
      Copy(step, upper, left ? other : device_);
    }
  }

  void FoldUp() {
    const bool flat = IsFlat(phase_.recipe);
    for (int level = 1; level <= TreeLevel(group_.size); ++level) {
      const int step = level - 1;
      const std::optional<TreeNode> node = TreeNodeAt(group_.size, group_.place, level);
      if (!node) {
        CarryOn(step);
        continue;
      }
      const Range mine = TreeRange(node->width(), group_.place - node->low, group_.line);
      const auto add = [&](int64_t left, int64_t right, Range held) {
        const Box box = group_.OnLine(held, flat);
        if (Volume(box) == 0) return;
        writes_[step].regions.push_back(
            {box,
             {{group_.Peer(node->low + left), {node->low, node->middle}},
              {group_.Peer(node->middle + right), {node->middle, node->high}}},
             {0, 1, -1}});
      };
      ForEachTreeOwner(node->middle - node->low, group_.line, mine, [&](int64_t left, Range held) {
        ForEachTreeOwner(node->high - node->middle, group_.line, held,
                         [&](int64_t right, Range both) { add(left, right, both); });
      });
    }
  }

  void GatherDown() {
    const int64_t position = TreePosition(group_.size, group_.place);
    const int levels = TreeLevel(group_.size);
    for (int level = 1; level <= levels; ++level) {
      const int step = levels + level - 1;
      const std::optional<TreeNode> node = TreeNodeAt(group_.size, position, level);
      if (!node) {
        CarryOn(step);
        continue;
      }
      const bool left = position < node->middle;
      const int64_t other = group_.Peer(TreeDeviceAt(group_.size, TreePartner(*node, position)));
      const auto copy = [&](int64_t low, int64_t high, int64_t from) {
        const Range range = TreeSpan(group_.size, low, high, group_.line);
        if (range.size() > 0) Copy(step, {range}, from);
      };
      copy(node->low, node->middle, left ? device_ : other);
      copy(node->middle, node->high, left ? other : device_);
    }
  }

  // Halving leaves on each device the piece of the sum that the tree gave it, which need not be the
  // shard that it is to have: of four devices above, b ends with [4, 6), and is to have [2, 4).
  void MoveToShard() {
    const Range mine = Cut({0, group_.line}, group_.size, group_.place);
    ForEachTreeOwner(group_.size, group_.line, mine, [&](int64_t i, Range held) {
      Copy(TreeLevel(group_.size), group_.OnLine(held, false), group_.Peer(i));
    });
  }

  const BoxingPhase& phase_;
  const Shape& shape_;
  const int64_t device_;
  const PhaseGroup group_;
  std::vector<PhaseWrite> writes_;
};

}  // namespace

std::vector<PhaseWrite> PhaseSteps(const BoxingPhase& phase, const Shape& shape, int64_t device) {
  if (phase.axis < 0) return {WholeMeshStep(phase, shape, device)};
  return Expansion(phase, shape, device).Run();
}

}  // namespace sluice
