// Which phases are collectives, and who meets in one.
#include "framework/sbp/phase_collective.h"

#include <vector>

#include "gtest/gtest.h"

namespace sluice {
namespace {

Mesh TwoByTwo() { return *Mesh::Parse("data=2 model=2"); }

std::optional<PhaseCollective> Of(BoxingRecipe recipe, int axis, const NdSbp& from, const NdSbp& to,
                                  const Shape& shape) {
  return CollectiveOf({recipe, axis, 1, {TwoByTwo(), from}, {TwoByTwo(), to}}, shape);
}

TEST(PhaseCollectiveTest, GroupsLieAlongTheAxis) {
  using Groups = std::vector<std::vector<int64_t>>;
  const auto outer =
      Of(BoxingRecipe::kAllReduceHalving, 0, {Sbp::P(), Sbp::B()}, {Sbp::B(), Sbp::B()}, {3, 5});
  ASSERT_TRUE(outer.has_value());
  EXPECT_EQ(outer->op, "all_reduce");
  EXPECT_EQ(outer->reduction, Reduction::kSum);
  EXPECT_EQ(outer->groups, (Groups{{0, 2}, {1, 3}}));
  EXPECT_EQ(CollectiveName(*outer, 0), "all_reduce[0]:nccl");
  const auto inner =
      Of(BoxingRecipe::kAllGather, 1, {Sbp::B(), Sbp::S(0)}, {Sbp::B(), Sbp::B()}, {4, 5});
  ASSERT_TRUE(inner.has_value());
  EXPECT_EQ(inner->op, "all_gather");
  EXPECT_EQ(inner->reduction, Reduction::kNone);
  EXPECT_EQ(inner->groups, (Groups{{0, 1}, {2, 3}}));
}

TEST(PhaseCollectiveTest, ShardsAreEqualRuns) {
  const auto scatters = [](int dim, const Shape& shape) {
    return Of(BoxingRecipe::kReduceScatter, 0, {Sbp::P(), Sbp::B()}, {Sbp::S(dim), Sbp::B()}, shape)
        .has_value();
  };
  EXPECT_TRUE(scatters(0, {6, 4}));
  EXPECT_FALSE(scatters(0, {5, 4}));  // three rows and two
  EXPECT_FALSE(scatters(1, {6, 4}));  // columns lie in turn
  EXPECT_TRUE(scatters(1, {1, 4}));   // of one row they do not
  EXPECT_FALSE(scatters(0, {0, 4}));
}

TEST(PhaseCollectiveTest, WhatAnotherAxisSplitsIsCutFirst) {
  // Along `model` each group has two rows of its own, and cuts them by columns.
  const NdSbp from = {Sbp::S(0), Sbp::S(1)}, to = {Sbp::S(0), Sbp::B()};
  EXPECT_FALSE(Of(BoxingRecipe::kAllGather, 1, from, to, {4, 6}).has_value());
  EXPECT_TRUE(Of(BoxingRecipe::kAllGather, 1, from, to, {2, 6}).has_value());
  // Three rows: one group has two of them, which are two runs.
  EXPECT_FALSE(Of(BoxingRecipe::kAllGather, 1, from, to, {3, 6}).has_value());
}

TEST(PhaseCollectiveTest, OtherPhasesAreNone) {
  EXPECT_FALSE(Of(BoxingRecipe::kAllToAll, 0, {Sbp::S(0), Sbp::B()}, {Sbp::S(1), Sbp::B()}, {4, 4})
                   .has_value());
  EXPECT_FALSE(
      Of(BoxingRecipe::kSlice, 0, {Sbp::B(), Sbp::B()}, {Sbp::S(0), Sbp::B()}, {4, 4}).has_value());
  EXPECT_FALSE(Of(BoxingRecipe::kGeneral, -1, {Sbp::P(), Sbp::B()}, {Sbp::B(), Sbp::B()}, {4, 4})
                   .has_value());
}

}  // namespace
}  // namespace sluice
