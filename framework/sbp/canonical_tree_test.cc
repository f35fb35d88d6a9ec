#include "framework/sbp/canonical_tree.h"

#include <set>
#include <utility>

#include "framework/sbp/fold_order.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

TEST(CanonicalTree, PositionsArePermutationsAndHaveAnInverse) {
  for (int64_t width = 1; width <= 130; ++width) {
    std::set<int64_t> seen;
    for (int64_t i = 0; i < width; ++i) {
      const int64_t position = TreePosition(width, i);
      EXPECT_TRUE(position >= 0 && position < width && seen.insert(position).second);
      ASSERT_EQ(TreeDeviceAt(width, position), i) << width;
    }
  }
  EXPECT_EQ(TreePosition(4, 1), 2);  // the example of the header
  EXPECT_EQ(TreePosition(5, 4), 2);
  EXPECT_EQ(TreeRange(4, 1, 16), (Range{8, 12}));
  EXPECT_EQ(TreeRange(5, 1, 16), (Range{10, 13}));
}

// With powers of two, a range is a half of the child's.
TEST(CanonicalTree, HalvesNest) {
  for (int64_t extent : {1, 7, 64, 1000}) {
    for (int64_t i = 0; i < 64; ++i) {
      Range outer = {0, extent};
      for (int level = 1; level <= 6; ++level) {
        const int64_t width = int64_t{1} << level;
        const Range inner = TreeRange(width, i % width, extent);
        EXPECT_TRUE(outer.begin <= inner.begin && inner.end <= outer.end);
        EXPECT_LE(inner.size(), (extent + width - 1) / width);
        outer = inner;
      }
    }
  }
}

TEST(CanonicalTree, NodesAreThoseOfTheCanonicalOrder) {
  for (int64_t size = 2; size <= 33; ++size) {
    const int64_t sizes[] = {size};
    for (int64_t i = 0; i < size; ++i) {
      std::set<int> levels;
      for (int level = TreeLevel(size); level > 0; --level) {
        const std::optional<TreeNode> node = TreeNodeAt(size, i, level);
        if (!node) continue;
        levels.insert(level);
        EXPECT_TRUE(node->low <= i && i < node->high);
        EXPECT_TRUE(IsSubtree(node->low, node->high, sizes));
        EXPECT_EQ(TreeCut(node->low, node->high, sizes), node->middle);
        EXPECT_EQ(TreeLevel(node->width()), level);
      }
      EXPECT_EQ(levels.count(TreeLevel(size)), 1u);
    }
  }
}

TEST(CanonicalTree, ReadersAreTheInverseOfPartners) {
  for (int64_t size = 2; size <= 33; ++size) {
    for (int level = 1; level <= TreeLevel(size); ++level) {
      std::set<std::pair<int64_t, int64_t>> read, said;
      for (int64_t i = 0; i < size; ++i) {
        const std::optional<TreeNode> node = TreeNodeAt(size, i, level);
        if (!node) continue;
        const int64_t partner = TreePartner(*node, i);
        EXPECT_NE(i < node->middle, partner < node->middle);
        read.emplace(partner, i);
        ForEachTreeReader(*node, i, [&](int64_t reader) { said.emplace(i, reader); });
      }
      EXPECT_EQ(read, said) << size << " level " << level;
    }
  }
}

TEST(CanonicalTree, OwnersTileWhatIsAskedFor) {
  for (int64_t width : {1, 2, 3, 5, 8, 12, 31}) {
    for (int64_t extent : {0, 1, 4, 29, 96}) {
      for (const Range& range : {Range{0, extent}, Range{extent / 3, extent / 2}}) {
        int64_t at = range.begin;
        ForEachTreeOwner(width, extent, range, [&](int64_t i, Range held) {
          EXPECT_EQ(held.begin, at);
          const Range all = TreeRange(width, i, extent);
          EXPECT_TRUE(all.begin <= held.begin && held.end <= all.end && held.size() > 0);
          at = held.end;
        });
        EXPECT_EQ(at, range.end) << width << " " << extent;
      }
    }
  }
}

}  // namespace
}  // namespace sluice
