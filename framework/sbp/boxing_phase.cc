#include "framework/sbp/boxing_phase.h"

#include "absl/strings/str_cat.h"
#include "framework/base/log.h"
#include "framework/sbp/canonical_tree.h"
#include "framework/sbp/phase_group.h"

namespace sluice {
namespace {

struct RecipeName {
  BoxingRecipe recipe;
  const char* name;
  const char* way;
};

constexpr RecipeName kNames[] = {
    {BoxingRecipe::kSlice, "slice", ""},
    {BoxingRecipe::kPad, "pad", ""},
    {BoxingRecipe::kEmbed, "embed", ""},
    {BoxingRecipe::kAllGather, "all_gather", ""},
    {BoxingRecipe::kAllGatherTwoLevel, "all_gather", ":two_level"},
    {BoxingRecipe::kAllGatherDoubling, "all_gather", ":doubling"},
    {BoxingRecipe::kAllToAll, "all_to_all", ""},
    {BoxingRecipe::kReduceScatter, "reduce_scatter", ""},
    {BoxingRecipe::kReduceScatterTwoLevel, "reduce_scatter", ":two_level"},
    {BoxingRecipe::kReduceScatterHalving, "reduce_scatter", ":halving"},
    {BoxingRecipe::kAllReduce, "all_reduce", ""},
    {BoxingRecipe::kAllReduceSplit, "all_reduce", ":split"},
    {BoxingRecipe::kAllReduceTwoLevel, "all_reduce", ":two_level"},
    {BoxingRecipe::kAllReduceHalving, "all_reduce", ":halving"},
    {BoxingRecipe::kCopy, "copy", ""},
    {BoxingRecipe::kGeneral, "general", ""},
};

}  // namespace

std::string PhaseName(const BoxingPhase& phase) {
  for (const RecipeName& each : kNames) {
    if (each.recipe != phase.recipe) continue;
    if (phase.axis < 0) return each.name;
    return absl::StrCat(each.name, "[", phase.axis, "]", each.way);
  }
  SLUICE_CHECK(false) << "recipe " << static_cast<int>(phase.recipe) << " has no name";
  return "";
}

int PhaseStepCount(const BoxingPhase& phase) {
  switch (phase.recipe) {
    case BoxingRecipe::kAllGatherTwoLevel:
    case BoxingRecipe::kReduceScatterTwoLevel:
    case BoxingRecipe::kAllReduceSplit:
      return 2;
    case BoxingRecipe::kAllReduceTwoLevel:
      return 4;
    case BoxingRecipe::kAllGatherDoubling:
      return TreeLevel(phase.to.mesh.axes()[phase.axis].size);
    case BoxingRecipe::kReduceScatterHalving:
      return TreeLevel(phase.to.mesh.axes()[phase.axis].size) + 1;
    case BoxingRecipe::kAllReduceHalving:
      return 2 * TreeLevel(phase.to.mesh.axes()[phase.axis].size);
    default:
      return 1;
  }
}

bool IsFlat(BoxingRecipe recipe) {
  return recipe == BoxingRecipe::kAllReduceSplit || recipe == BoxingRecipe::kAllReduceTwoLevel ||
         recipe == BoxingRecipe::kAllReduceHalving;
}

PhaseGroup::PhaseGroup(const BoxingPhase& phase, const Shape& shape, int64_t device)
    : inner(phase.inner), from(phase.from.sbp[phase.axis]), to(phase.to.sbp[phase.axis]) {
  const Mesh& mesh = phase.to.mesh;
  for (size_t a = phase.axis + 1; a < mesh.axes().size(); ++a) stride *= mesh.axes()[a].size;
  size = mesh.axes()[phase.axis].size;
  place = device / stride % size;
  first = device - place * stride;
  NdSbp others = phase.to.sbp;
  others[phase.axis] = Sbp::B();
  base = PlacementAt(mesh, others, shape, mesh.Coordinates(device)).box;
  line = to.is_split() ? base[to.dim].size() : Volume(base);
}

Box PhaseGroup::OnLine(Range range, bool flat) const {
  if (flat) return {range};
  Box box = base;
  box[to.dim] = {base[to.dim].begin + range.begin, base[to.dim].begin + range.end};
  return box;
}

int64_t CutAround(Range range, int64_t shards, int64_t index) {
  const int64_t each = range.size() / shards, more = range.size() % shards;
  const int64_t at = index - range.begin, long_ones = more * (each + 1);
  return at < long_ones ? at / (each + 1) : more + (at - long_ones) / each;
}

Range HalvedRange(const PhaseGroup& group, int level) {
  for (; level > 0; --level) {
    const std::optional<TreeNode> node = TreeNodeAt(group.size, group.place, level);
    if (node) return TreeRange(node->width(), group.place - node->low, group.line);
  }
  return {0, group.line};
}

Range GatheredRange(const PhaseGroup& group, int level) {
  const int64_t position = TreePosition(group.size, group.place);
  for (; level > 0; --level) {
    const std::optional<TreeNode> node = TreeNodeAt(group.size, position, level);
    if (node) return TreeSpan(group.size, node->low, node->high, group.line);
  }
  return TreeSpan(group.size, position, position + 1, group.line);
}

namespace {

// The box that a device of a doubling gather has after the nodes up to a level.
Box DoubledBox(const PhaseGroup& group, int level) {
  Box box = group.From(group.place);
  for (; level > 0; --level) {
    const std::optional<TreeNode> node = TreeNodeAt(group.size, group.place, level);
    if (!node) continue;
    box[group.from.dim] = {group.From(node->low)[group.from.dim].begin,
                           group.From(node->high - 1)[group.from.dim].end};
    break;
  }
  return box;
}

// Of all nodes, the shards of those devices that stand where this one stands in its node.
std::vector<Box> ColumnBoxes(const PhaseGroup& group) {
  const bool gather = group.from.is_split();
  std::vector<Box> boxes;
  for (int64_t i = group.place % group.inner; i < group.size; i += group.inner) {
    boxes.push_back(gather ? group.From(i) : group.To(i));
  }
  return boxes;
}

// After a step that is neither the source nor the last.
std::vector<Box> MiddlePieces(const PhaseGroup& group, BoxingRecipe recipe, int steps) {
  const bool flat = IsFlat(recipe);
  const int levels = TreeLevel(group.size);
  switch (recipe) {
    case BoxingRecipe::kAllGatherTwoLevel:
    case BoxingRecipe::kReduceScatterTwoLevel:
      return ColumnBoxes(group);
    case BoxingRecipe::kAllGatherDoubling:
      return {DoubledBox(group, steps)};
    case BoxingRecipe::kAllReduceSplit:
      return {{group.FlatPiece(group.size, group.place)}};
    case BoxingRecipe::kAllReduceTwoLevel: {
      const Range near = group.FlatPiece(group.inner, group.place % group.inner);
      if (steps != 2) return {{near}};
      return {{Cut(near, group.outer(), group.place / group.inner)}};
    }
    default:
      return {group.OnLine(
          steps <= levels ? HalvedRange(group, steps) : GatheredRange(group, steps - levels),
          flat)};
  }
}

}  // namespace

std::vector<Box> PhasePieces(const BoxingPhase& phase, const Shape& shape, int steps,
                             int64_t device) {
  std::vector<Box> pieces;
  if (phase.axis < 0) {
    const Layout& layout = steps == 0 ? phase.from : phase.to;
    const std::vector<int64_t> at = layout.mesh.Coordinates(device);
    pieces = {PlacementAt(layout.mesh, layout.sbp, shape, at).box};
  } else {
    const PhaseGroup group(phase, shape, device);
    const bool last = steps == PhaseStepCount(phase);
    if (IsFlat(phase.recipe) && (steps == 0 || last)) {
      pieces = {{{0, Volume(group.base)}}};
    } else if (steps == 0) {
      pieces = {group.From(group.place)};
    } else if (last) {
      pieces = {group.To(group.place)};
    } else {
      pieces = MiddlePieces(group, phase.recipe, steps);
    }
  }
  std::erase_if(pieces, [](const Box& piece) { return Volume(piece) == 0; });
  return pieces;
}

// Balanced cuts give the first device the most of everything, but for the tree of a group that is
// no power of two: there the last devices are in the smallest nodes, and hold the most while they
// fold.
int64_t LargestBuffer(const BoxingPhase& phase, const Shape& shape, int steps) {
  int64_t volume = 0;
  for (const Box& piece : PhasePieces(phase, shape, steps, 0)) volume += Volume(piece);
  if (phase.recipe != BoxingRecipe::kAllReduceHalving &&
      phase.recipe != BoxingRecipe::kReduceScatterHalving) {
    return volume;
  }
  const PhaseGroup group(phase, shape, 0);
  if (steps == 0 || steps > TreeLevel(group.size)) return volume;
  int64_t width = 1;
  for (int level = steps; level > 0 && width == 1; --level) {
    const std::optional<TreeNode> node = TreeNodeAt(group.size, group.size - 1, level);
    if (node) width = node->width();
  }
  return Volume(group.OnLine({0, (group.line + width - 1) / width}, IsFlat(phase.recipe)));
}

int64_t WaitedFor(const BoxingPhase& phase, int step, int64_t device) {
  return step > 0 || phase.axis >= 0 ? device : device % phase.from.mesh.num_devices();
}

}  // namespace sluice
