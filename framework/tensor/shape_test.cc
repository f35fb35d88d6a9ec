#include "framework/tensor/shape.h"

#include <vector>

#include "gtest/gtest.h"

namespace sluice {
namespace {

TEST(Shape, CountsAndStrides) {
  const Shape shape = {2, 3, 4};
  EXPECT_EQ(shape.NumElements(), 24);
  EXPECT_EQ(shape.Strides(), (Shape{12, 4, 1}));
  EXPECT_EQ(Shape().NumElements(), 1);
  EXPECT_EQ((Shape{3, 0}).NumElements(), 0);
}

TEST(Shape, IndexOfAnElement) {
  EXPECT_EQ(Shape({2, 3}).IndexOf(3), Shape({1, 0}));
  EXPECT_EQ(Shape({3, 4, 15}).IndexOf(65), Shape({1, 0, 5}));
  EXPECT_EQ(Shape().IndexOf(0), Shape());
}

TEST(Shape, TextFormIsTheSameBothWays) {
  for (const Shape& shape : {Shape(), Shape{0}, Shape{2, 3, 4}}) {
    EXPECT_EQ(*Shape::Parse(shape.ToString()), shape);
  }
  for (const char* bad : {"", "[", "2,3", "[2,]", "[-1]", "[2;3]", "[a]"}) {
    EXPECT_FALSE(Shape::Parse(bad).ok()) << bad;
  }
}

TEST(Cut, IsBalancedAndCoversTheRange) {
  for (int64_t size = 0; size < 12; ++size) {
    for (int64_t shards = 1; shards < 6; ++shards) {
      int64_t end = 5, largest = 0, smallest = size;
      for (int64_t i = 0; i < shards; ++i) {
        const Range piece = Cut({5, 5 + size}, shards, i);
        EXPECT_EQ(piece.begin, end);
        EXPECT_LE(piece.size(), smallest);  // larger pieces first
        end = piece.end;
        largest = std::max(largest, piece.size());
        smallest = std::min(smallest, piece.size());
      }
      EXPECT_EQ(end, 5 + size);
      EXPECT_LE(largest - smallest, 1);
    }
  }
}

TEST(Box, IntersectionAndVolume) {
  const Box a = {{0, 4}, {2, 8}}, b = {{2, 6}, {0, 4}};
  EXPECT_EQ(Intersect(a, b), (Box{{2, 4}, {2, 4}}));
  EXPECT_EQ(Volume(Intersect(a, b)), 4);
  EXPECT_EQ(Volume(Intersect(a, {{4, 6}, {2, 8}})), 0);
  EXPECT_EQ(ShapeOf(a), (Shape{4, 6}));
  EXPECT_EQ(WholeBox({4, 6}), (Box{{0, 4}, {0, 6}}));
  EXPECT_EQ(BoxToString(a), "[0:4,2:8]");
  EXPECT_EQ(Volume(Box()), 1);
}

// (offset, length) of each row.
std::vector<std::pair<int64_t, int64_t>> RowsOf(const Box& outer, const Box& inner) {
  std::vector<std::pair<int64_t, int64_t>> rows;
  ForEachRow(outer, inner,
             [&](int64_t offset, int64_t length) { rows.emplace_back(offset, length); });
  return rows;
}

TEST(ForEachRow, WalksRowsInOrder) {
  using Rows = std::vector<std::pair<int64_t, int64_t>>;
  EXPECT_EQ(RowsOf({{0, 4}, {2, 8}}, {{1, 3}, {3, 5}}), (Rows{{7, 2}, {13, 2}}));
  EXPECT_EQ(RowsOf({{5, 9}}, {{6, 9}}), (Rows{{1, 3}}));
  EXPECT_EQ(RowsOf({}, {}), (Rows{{0, 1}}));
  EXPECT_TRUE(RowsOf({{0, 4}, {0, 4}}, {{0, 4}, {2, 2}}).empty());
  EXPECT_EQ(RowsOf({{0, 2}, {0, 3}, {0, 2}}, {{0, 2}, {1, 3}, {0, 1}}),
            (Rows{{2, 1}, {4, 1}, {8, 1}, {10, 1}}));
}

}  // namespace
}  // namespace sluice
