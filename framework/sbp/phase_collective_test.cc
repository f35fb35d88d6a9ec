// Which phases are collectives, and who meets in one.
#include "framework/sbp/phase_collective.h"

#include <vector>

#include "framework/sbp/phase_group.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

Mesh TwoByTwo() { return *Mesh::Parse("data=2 model=2"); }

std::optional<PhaseCollective> Of(BoxingRecipe recipe, int axis, const NdSbp& from, const NdSbp& to,
                                  const Shape& shape) {
  return CollectiveOf({recipe, axis, 1, {TwoByTwo(), from}, {TwoByTwo(), to}}, shape);
}

TEST(PhaseCollectiveTest, GroupsLieAlongTheAxis) {
  using Members = std::vector<int64_t>;
  const auto members = [](BoxingRecipe recipe, int axis, const NdSbp& from, const NdSbp& to,
                          int64_t place) {
    return MembersOfCollective({recipe, axis, 1, {TwoByTwo(), from}, {TwoByTwo(), to}}, {4, 5},
                               place);
  };
  const auto outer =
      Of(BoxingRecipe::kAllReduceHalving, 0, {Sbp::P(), Sbp::B()}, {Sbp::B(), Sbp::B()}, {3, 5});
  ASSERT_TRUE(outer.has_value());
  EXPECT_EQ(outer->op, "all_reduce");
  EXPECT_EQ(outer->reduction, Reduction::kSum);
  for (const int64_t place : {1, 3}) {
    EXPECT_EQ(members(BoxingRecipe::kAllReduceHalving, 0, {Sbp::P(), Sbp::B()},
                      {Sbp::B(), Sbp::B()}, place),
              Members({1, 3}));
  }
  EXPECT_EQ(CollectiveName(*outer, 0), "all_reduce[0]:nccl");
  const auto inner =
      Of(BoxingRecipe::kAllGather, 1, {Sbp::B(), Sbp::S(0)}, {Sbp::B(), Sbp::B()}, {4, 5});
  ASSERT_TRUE(inner.has_value());
  EXPECT_EQ(inner->op, "all_gather");
  EXPECT_EQ(inner->reduction, Reduction::kNone);
  for (const int64_t place : {2, 3}) {
    EXPECT_EQ(
        members(BoxingRecipe::kAllGather, 1, {Sbp::B(), Sbp::S(0)}, {Sbp::B(), Sbp::B()}, place),
        Members({2, 3}));
  }
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

// What the corners of a mesh say is true of all its devices: of each group, asked alone.
TEST(PhaseCollectiveTest, CornersStandForAllDevices) {
  const Mesh mesh = *Mesh::Parse("data=3 model=2 tensor=4");
  const std::vector<Sbp> kept = {Sbp::B(), Sbp::S(0), Sbp::S(1)};
  int collectives = 0, others = 0;
  for (int axis = 0; axis < 3; ++axis) {
    for (const Sbp outer : kept) {
      for (const Sbp inner : kept) {
        for (const int dim : {0, 1}) {
          for (const Shape& shape : {Shape{1, 24},
                                     {2, 24},
                                     {6, 4},
                                     {7, 4},
                                     {12, 5},
                                     {24, 24},
                                     {25, 6},
                                     {96, 2},
                                     {3, 0}}) {
            NdSbp from = {outer, outer, outer}, to = from;
            from[2 - (axis == 2 ? 1 : 0)] = to[2 - (axis == 2 ? 1 : 0)] = inner;
            from[axis] = Sbp::P();
            to[axis] = Sbp::S(dim);
            const BoxingPhase phase = {
                BoxingRecipe::kReduceScatter, axis, 1, {mesh, from}, {mesh, to}};
            // Splits of one dimension are made from the outside: a phase whose axis has others of
            // its dimension inside of it is none.
            bool legal = true;
            for (int in = axis + 1; in < 3; ++in) legal = legal && to[in] != Sbp::S(dim);
            if (!legal) continue;
            bool all = true;
            for (int64_t device = 0; device < mesh.num_devices(); ++device) {
              const PhaseGroup group(phase, shape, device);
              all = all && Volume(group.base) > 0 && group.base[dim].size() % group.size == 0 &&
                    (dim == 0 || group.base[0].size() == 1);
            }
            EXPECT_EQ(CollectiveOf(phase, shape).has_value(), all)
                << shape.ToString() << " axis " << axis << " dimension " << dim;
            ++(all ? collectives : others);
          }
        }
      }
    }
  }
  EXPECT_GT(collectives, 20);
  EXPECT_GT(others, 100);
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
