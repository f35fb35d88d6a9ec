#include "framework/sbp/canonical_tree.h"

#include <algorithm>

#include "framework/base/log.h"

namespace sluice {
namespace {

// Of a node of two devices or more: the width of its left child.
int64_t LeftWidth(int64_t width) { return int64_t{1} << (TreeLevel(width) - 1); }

// The positions of a node are those of its children, merged by the middles of their ranges; where
// two middles coincide, the left one stands first. Position q of m on the left has its middle at
// (2q + 1) / 2m, and 2k + 1 < (2q + 1) r / m of the r on the right lie before it.
int64_t MergedLeft(int64_t left, int64_t right, int64_t position) {
  const int64_t before = (2 * position + 1) * right - left;
  return position + (before <= 0 ? 0 : (before + 2 * left - 1) / (2 * left));
}
int64_t MergedRight(int64_t left, int64_t right, int64_t position) {
  const int64_t before = (2 * position + 1) * left - right;
  return position + (before < 0 ? 0 : before / (2 * right) + 1);
}

}  // namespace

int TreeLevel(int64_t width) {
  int level = 0;
  while ((int64_t{1} << level) < width) ++level;
  return level;
}

std::optional<TreeNode> TreeNodeAt(int64_t size, int64_t i, int level) {
  TreeNode node = {0, 0, size};
  while (node.width() > 1) {
    const int at = TreeLevel(node.width());
    node.middle = node.low + (int64_t{1} << (at - 1));
    if (at == level) return node;
    if (at < level) break;
    (i < node.middle ? node.high : node.low) = node.middle;
  }
  return std::nullopt;
}

int64_t TreePosition(int64_t width, int64_t i) {
  if (width == 1) return 0;
  const int64_t left = LeftWidth(width), right = width - left;
  return i < left ? MergedLeft(left, right, TreePosition(left, i))
                  : MergedRight(left, right, TreePosition(right, i - left));
}

int64_t TreeDeviceAt(int64_t width, int64_t position) {
  if (width == 1) return 0;
  const int64_t left = LeftWidth(width), right = width - left;
  // Merging keeps proportions up to rounding, so the place in a child is found next to its share.
  for (int64_t near = position * left / width - 1; near <= position * left / width + 1; ++near) {
    if (near >= 0 && near < left && MergedLeft(left, right, near) == position) {
      return TreeDeviceAt(left, near);
    }
  }
  for (int64_t near = position * right / width - 1; near <= position * right / width + 1; ++near) {
    if (near >= 0 && near < right && MergedRight(left, right, near) == position) {
      return left + TreeDeviceAt(right, near);
    }
  }
  SLUICE_CHECK(false) << "position " << position << " of " << width << " is nobody's";
  return -1;
}

// Boundaries are rounded up: the first range is the largest, and the halves of a range are ranges
// of twice the width.
Range TreeSpan(int64_t width, int64_t low, int64_t high, int64_t extent) {
  return {(extent * low + width - 1) / width, (extent * high + width - 1) / width};
}

Range TreeRange(int64_t width, int64_t i, int64_t extent) {
  const int64_t position = TreePosition(width, i);
  return TreeSpan(width, position, position + 1, extent);
}

int64_t TreePartner(const TreeNode& node, int64_t i) {
  return i < node.middle ? node.middle + (i - node.low) % (node.high - node.middle)
                         : node.low + i - node.middle;
}

void ForEachTreeReader(const TreeNode& node, int64_t i, absl::FunctionRef<void(int64_t)> fn) {
  const int64_t right = node.high - node.middle;
  if (i < node.middle) {
    if (i - node.low < right) fn(node.middle + i - node.low);
    return;
  }
  for (int64_t reader = node.low + i - node.middle; reader < node.middle; reader += right) {
    fn(reader);
  }
}

void ForEachTreeOwner(int64_t width, int64_t extent, Range range,
                      absl::FunctionRef<void(int64_t i, Range held)> fn) {
  if (range.size() <= 0) return;
  // From the last position that begins at or before the range.
  for (int64_t position = range.begin * width / extent; position < width; ++position) {
    const Range at = TreeSpan(width, position, position + 1, extent);
    if (at.begin >= range.end) return;
    const Range held = {std::max(at.begin, range.begin), std::min(at.end, range.end)};
    if (held.size() > 0) fn(TreeDeviceAt(width, position), held);
  }
}

}  // namespace sluice
