#include "framework/sbp/fold_order.h"

#include <string>

#include "gtest/gtest.h"

namespace sluice {
namespace {

// The tree in words: (0 1) 2 is the fold of 0 and 1, then 2.
std::string Tree(int64_t count, const std::vector<int64_t>& sizes) {
  std::vector<FoldRange> ranges;
  for (int64_t k = 0; k < count; ++k) ranges.push_back({k, k + 1});
  std::vector<std::string> stack;
  for (int entry : FoldOrder(ranges, Reduction::kSum, sizes)) {
    if (entry >= 0) {
      stack.push_back(std::to_string(entry));
    } else {
      const std::string right = stack.back();
      stack.pop_back();
      stack.back() = "(" + stack.back() + " " + right + ")";
    }
  }
  EXPECT_EQ(stack.size(), 1u);
  return stack[0];
}

TEST(CanonicalOrder, CutsAtTheLargestPowerOfTwo) {
  EXPECT_EQ(Tree(1, {1}), "0");
  EXPECT_EQ(Tree(2, {2}), "(0 1)");
  EXPECT_EQ(Tree(3, {3}), "((0 1) 2)");
  EXPECT_EQ(Tree(5, {5}), "(((0 1) (2 3)) 4)");
  EXPECT_EQ(Tree(6, {6}), "(((0 1) (2 3)) (4 5))");
}

TEST(CanonicalOrder, InnermostAxisFirst) {
  EXPECT_EQ(Tree(6, {2, 3}), "(((0 1) 2) ((3 4) 5))");
  EXPECT_EQ(Tree(6, {3, 2}), "(((0 1) (2 3)) (4 5))");
  EXPECT_EQ(Tree(8, {2, 2, 2}), Tree(8, {8}));
  EXPECT_EQ(Tree(3, {1, 3, 1}), "((0 1) 2)");
}

TEST(CanonicalOrder, WholeSubtreesMayBeFoldedBefore) {
  const std::vector<int64_t> sizes = {2, 3};
  EXPECT_TRUE(IsSubtree(0, 6, sizes));
  EXPECT_TRUE(IsSubtree(0, 3, sizes));
  EXPECT_TRUE(IsSubtree(3, 5, sizes));
  EXPECT_TRUE(IsSubtree(4, 5, sizes));
  EXPECT_FALSE(IsSubtree(1, 3, sizes));
  EXPECT_FALSE(IsSubtree(2, 4, sizes));
  EXPECT_FALSE(IsSubtree(0, 4, sizes));
  EXPECT_FALSE(IsSubtree(0, 5, sizes));
  EXPECT_EQ(FoldOrder({{0, 3}, {3, 5}, {5, 6}}, Reduction::kSum, sizes),
            (std::vector<int>{0, 1, 2, -1, -1}));
  EXPECT_EQ(FoldOrder({{0, 2}, {1, 3}, {3, 4}}, Reduction::kMax, sizes),
            (std::vector<int>{0, 1, -1, 2, -1}));
}

}  // namespace
}  // namespace sluice
