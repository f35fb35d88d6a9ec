#include "framework/comm/pieces.h"

#include <cstdint>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

PullRequest Of(std::vector<PullRequest::Piece> pieces, int64_t bytes, int32_t element = 4) {
  PullRequest request;
  request.element_bytes = element;
  request.bytes = bytes;
  request.pieces = std::move(pieces);
  return request;
}

TEST(PiecesTest, WhatFitsIsTaken) {
  EXPECT_TRUE(CheckPieces(Of({{0, {2, 3}, {10, 1}}}, 24), 52).ok());
  EXPECT_TRUE(CheckPieces(Of({{48, {}, {}}}, 4), 52).ok());
  EXPECT_TRUE(CheckPieces(Of({{100, {0, 3}, {10, 1}}}, 0), 52).ok());  // empty, wherever it lies
}

TEST(PiecesTest, WhatLiesInARow) {
  const auto offset_of = [](std::vector<PullRequest::Piece> pieces) -> int64_t {
    int64_t offset = 0;
    return LieInRow(Of(std::move(pieces), 0), &offset) ? offset : -1;
  };
  EXPECT_EQ(offset_of({{8, {2, 3}, {3, 1}}}), 8);
  EXPECT_EQ(offset_of({{8, {2, 3}, {3, 1}}, {90, {0}, {1}}, {32, {5}, {1}}}), 8);
  EXPECT_EQ(offset_of({{8, {2, 3}, {4, 1}}}), -1);                 // rows apart
  EXPECT_EQ(offset_of({{8, {6}, {1}}, {36, {5}, {1}}}), -1);       // a gap between
  EXPECT_EQ(offset_of({{28, {5}, {1}}, {8, {5}, {1}}}), -1);       // the second before the first
  EXPECT_EQ(offset_of({{8, {1, 3}, {100, 1}}, {20, {}, {}}}), 8);  // one of it: no stride counts
  EXPECT_EQ(offset_of({{8, {0, 3}, {3, 1}}}), -1);                 // nothing
}

TEST(PiecesTest, WhatLeavesTheSlotIsRefused) {
  EXPECT_THAT(CheckPieces(Of({{0, {2, 3}, {10, 1}}}, 24), 51).message(), HasSubstr("[0, 52)"));
  EXPECT_FALSE(CheckPieces(Of({{49, {}, {}}}, 4), 52).ok());
  EXPECT_FALSE(CheckPieces(Of({{-4, {}, {}}}, 4), 52).ok());
  EXPECT_FALSE(CheckPieces(Of({{0, {2}, {-1}}}, 8), 52).ok());
  EXPECT_FALSE(CheckPieces(Of({{0, {-2}, {1}}}, -8), 52).ok());
  EXPECT_FALSE(CheckPieces(Of({{0, {2}, {1}}}, 12), 52).ok());
  EXPECT_FALSE(CheckPieces(Of({{0, {1, 2}, {1}}}, 8), 52).ok());
  EXPECT_FALSE(CheckPieces(Of({{0, {1}, {1}}}, 0, 0), 52).ok());
}

// Products that come out small where they overflow are the classic way past such a check.
TEST(PiecesTest, NothingOverflows) {
  EXPECT_FALSE(CheckPieces(Of({{0, {int64_t{1} << 62, 4}, {0, 0}}}, 0, 1), 52).ok());
  EXPECT_FALSE(CheckPieces(Of({{0, {3}, {kMost / 2}}}, 12), 52).ok());
  EXPECT_FALSE(CheckPieces(Of({{kMost - 2, {1}, {1}}}, 4), 52).ok());
  EXPECT_FALSE(CheckPieces(Of({{0, {2}, {int64_t{1} << 62}}}, 8), 52).ok());
}

// Elements that are named over and over again make an answer as large as anybody likes.
TEST(PiecesTest, NoMoreIsGivenThanTheSlotHas) {
  EXPECT_THAT(CheckPieces(Of({{0, {int64_t{1} << 40}, {0}}}, int64_t{1} << 40, 1), 52).message(),
              HasSubstr("1099511627776 bytes of a slot that has 52"));
  EXPECT_TRUE(CheckPieces(Of({{0, {52}, {1}}}, 52, 1), 52).ok());
  EXPECT_FALSE(CheckPieces(Of({{0, {52}, {1}}, {0, {1}, {1}}}, 53, 1), 52).ok());
}

TEST(PiecesTest, RunsAreAsLongAsTheyLie) {
  std::vector<std::byte> slot(400);
  for (size_t i = 0; i < slot.size(); ++i) slot[i] = static_cast<std::byte>(i);
  std::vector<std::pair<int, size_t>> runs;
  const auto request = Of({{4, {3, 2, 5}, {20, 5, 1}}, {0, {2, 1, 2}, {1, 77, 4}}}, 136);
  ASSERT_TRUE(CheckPieces(request, 400).ok());
  ForEachRun(request, slot, [&](absl::Span<const std::byte> run) {
    runs.emplace_back(static_cast<int>(run.data() - slot.data()), run.size());
  });
  const std::vector<std::pair<int, size_t>> expected = {{4, 40}, {84, 40}, {164, 40}, {0, 4},
                                                        {16, 4}, {4, 4},   {20, 4}};
  EXPECT_EQ(runs, expected);
  std::vector<std::byte> gathered(request.bytes);
  Gather(request, slot, gathered.data());
  EXPECT_EQ(gathered[0], std::byte{4});
  EXPECT_EQ(gathered[41], std::byte{85});
  EXPECT_EQ(gathered[135], std::byte{23});
}

}  // namespace
}  // namespace sluice
