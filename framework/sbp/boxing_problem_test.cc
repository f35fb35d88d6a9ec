#include "framework/sbp/boxing_problem.h"

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

TEST(Chop, LongestDimensionAndEmptyPieces) {
  Box piece;
  ASSERT_TRUE(Chop({{0, 2}, {4, 9}}, 2, 1, &piece));
  EXPECT_EQ(piece, (Box{{0, 2}, {7, 9}}));
  EXPECT_FALSE(Chop({{0, 2}, {0, 2}}, 3, 2, &piece));
  EXPECT_TRUE(Chop({}, 3, 0, &piece));
  EXPECT_FALSE(Chop({}, 3, 1, &piece));
}

BoxingSide Side(std::vector<BoxingShard> shards, Reduction reduction, std::vector<int64_t> sizes) {
  return {std::move(shards), reduction, std::move(sizes)};
}

TEST(BoxingTargets, CellsAreCutByBothSides) {
  BoxingProblem problem;
  problem.nodes = {0, 0, 0};
  problem.source = Side({{true, {{0, 3}}, 0}, {true, {{3, 6}}, 0}, {}}, Reduction::kNone, {});
  problem.target = Side({{}, {true, {{0, 2}}, 0}, {true, {{2, 6}}, 0}}, Reduction::kNone, {});
  const std::vector<BoxingTarget> targets = BoxingTargets(problem);
  ASSERT_EQ(targets.size(), 3u);
  EXPECT_EQ(targets[1].box, (Box{{2, 3}}));
  EXPECT_EQ(targets[1].held[0].devices, (std::vector<int>{0}));
  EXPECT_EQ(targets[1].wanters, (std::vector<int>{2}));
  EXPECT_EQ(targets[2].held[0].devices, (std::vector<int>{1}));
}

TEST(BoxingTargets, PartialsStayWhereTheyAre) {
  BoxingProblem problem;
  problem.nodes = {0, 0};
  const Box box = {{0, 4}};
  for (Reduction reduction : {Reduction::kSum, Reduction::kMax}) {
    problem.source = Side({{true, box, 0}, {true, box, 1}}, reduction, {2});
    problem.target = Side({{true, box, 1}, {true, box, 0}}, reduction, {2});
    // Maxima are numbered anew. Sums must not be; to fold both into one is a transfer less than to
    // swap them, and each of the two takes half of that.
    const std::vector<BoxingTarget> targets = BoxingTargets(problem);
    ASSERT_EQ(targets.size(), 2u);
    for (const BoxingTarget& target : targets) {
      const bool stays = target.held.size() == 1 && target.held[0].devices == target.wanters;
      EXPECT_EQ(stays, reduction == Reduction::kMax);
      EXPECT_EQ(target.held.size(), reduction == Reduction::kMax ? 1u : 2u);
      EXPECT_EQ(Volume(target.box), reduction == Reduction::kMax ? 4 : 2);
    }
  }
}

}  // namespace
}  // namespace sluice
