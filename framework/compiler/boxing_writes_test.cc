#include "framework/compiler/boxing_writes.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace sluice {
namespace {

// Two pieces of a [4, 6] tensor, packed one behind the other: [2, 3] and [2, 6].
const std::vector<Box> kPieces = {{{0, 2}, {3, 6}}, {{2, 4}, {0, 6}}};

TEST(BoxingWritesTest, ElementsOfAllPiecesAreCounted) {
  EXPECT_EQ(Elements({}), 0);
  EXPECT_EQ(Elements(kPieces), 2 * 3 + 2 * 6);
}

TEST(BoxingWritesTest, ABoxIsFoundInThePieceThatHoldsIt) {
  EXPECT_EQ(Locate(kPieces, {{1, 2}, {4, 5}}), std::make_pair(int64_t{1 * 3 + 1}, (Shape{3, 1})));
  EXPECT_EQ(Locate(kPieces, {{3, 4}, {2, 6}}),
            std::make_pair(int64_t{2 * 3 + 1 * 6 + 2}, (Shape{6, 1})));
}

TEST(BoxingWritesTest, OffsetsCountFromTheOuterBox) {
  EXPECT_EQ(FlatOffset({{2, 4}, {1, 6}}, {{2, 4}, {1, 6}}), 0);
  EXPECT_EQ(FlatOffset({{2, 4}, {1, 6}}, {{3, 4}, {3, 4}}), 1 * 5 + 2);
}

}  // namespace
}  // namespace sluice
