#include "framework/sbp/boxing.h"

#include <algorithm>
#include <cmath>

#include "framework/sbp/boxing_testing.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

NdSbp One(absl::string_view text) { return {*ParseSbp(text)}; }

SymbolicBoxing Plan(const Layout& from, const Layout& to, const Shape& shape,
                    const Machine& machine = Machine::Cpu()) {
  absl::StatusOr<SymbolicBoxing> boxing = FindBoxing(from, to, shape, DType::kF32, machine);
  EXPECT_TRUE(boxing.ok()) << boxing.status();
  return *std::move(boxing);
}

// Table 2 of the paper: elements that cross, in units of the tensor, for p1 shards into p2.
struct Row {
  const char *from, *to;
  int64_t (*same)(int64_t p);                // same devices; times the tensor / p
  int64_t (*apart)(int64_t p1, int64_t p2);  // disjoint devices; times the tensor
};

class Table2 : public testing::TestWithParam<Row> {};

TEST_P(Table2, BytesMovedEqualTheRow) {
  const Row& row = GetParam();
  const Shape shape = {1024, 512};  // large enough for the cheapest in time to be so in bytes
  const int64_t bytes = shape.NumElements() * 4;
  const std::pair<int64_t, int64_t> sizes[] = {{2, 2}, {4, 4}, {2, 4}, {4, 2}};
  for (const auto& [p1, p2] : sizes) {
    const Layout from = {CellGridOf({p1}), One(row.from)};
    if (p1 == p2) {
      EXPECT_EQ(Plan(from, {from.mesh, One(row.to)}, shape).bytes, bytes / p1 * row.same(p1))
          << row.from << " to " << row.to << " on the same " << p1;
    }
    const Layout apart = {CellGridOf({p2}, 10), One(row.to)};
    EXPECT_EQ(Plan(from, apart, shape).bytes, bytes * row.apart(p1, p2))
        << row.from << " to " << row.to << " from " << p1 << " to other " << p2;
  }
}

int64_t Nothing(int64_t) { return 0; }
int64_t Once(int64_t, int64_t) { return 1; }
int64_t EachWanter(int64_t, int64_t p2) { return p2; }
int64_t EachPartial(int64_t p1, int64_t) { return p1; }

INSTANTIATE_TEST_SUITE_P(
    Rows, Table2,
    testing::Values(Row{"S0", "S0", Nothing, Once},  //
                    Row{"S0", "S1", [](int64_t p) { return p - 1; }, Once},
                    Row{"S0", "B", [](int64_t p) { return p * (p - 1); }, EachWanter},
                    Row{"S0", "P(sum)", Nothing, Once},  //
                    Row{"B", "S0", Nothing, Once},       //
                    Row{"B", "B", Nothing, EachWanter},  //
                    Row{"B", "P(sum)", Nothing, Once},
                    Row{"P(sum)", "S0", [](int64_t p) { return p * (p - 1); }, EachPartial},
                    Row{"P(sum)", "B", [](int64_t p) { return 2 * p * (p - 1); },
                        [](int64_t p1, int64_t p2) { return p1 + p2 - 1; }},
                    Row{"P(sum)", "P(sum)", Nothing, EachPartial}));

TEST(Boxing, IdentityHasNoPhases) {
  const Mesh grid = CellGridOf({2, 3});
  for (const NdSbp& sbp :
       AllNdSbps({Sbp::S(0), Sbp::S(1), Sbp::B(), Sbp::P(), Sbp::P(Reduction::kMax)}, 2, 2)) {
    const SymbolicBoxing boxing = Plan({grid, sbp}, {grid, sbp}, {7, 5});
    EXPECT_TRUE(boxing.phases.empty());
    EXPECT_EQ(boxing.nanoseconds, 0);
    EXPECT_EQ(boxing.ToString(), "identity");
  }
}

TEST(Boxing, AnAxisOfOneDeviceCostsNothing) {
  const Mesh grid = CellGridOf({1, 2});
  const NdSbp split = {Sbp::S(0), Sbp::B()}, partial = {Sbp::P(), Sbp::B()},
              whole = {Sbp::B(), Sbp::B()};
  for (const auto& [from, to] : {std::pair(split, whole), std::pair(partial, whole),
                                 std::pair(whole, partial), std::pair(partial, split)}) {
    EXPECT_TRUE(Plan({grid, from}, {grid, to}, {4, 4}).phases.empty());
  }
  // Between meshes that differ in name only, nothing crosses.
  EXPECT_EQ(
      Plan({CellGridOf({4}), One("S0")}, {CellGridOf({2, 2}), {Sbp::S(0), Sbp::S(0)}}, {8}).bytes,
      0);
}

TEST(Boxing, RecipesOfOneAxis) {
  const Mesh line = CellGridOf({4});
  const std::pair<const char*, std::pair<const char*, const char*>> cases[] = {
      {"slice[0]", {"B", "S0"}},          {"pad[0]", {"B", "P(max)"}},
      {"embed[0]", {"S0", "P(sum)"}},     {"all_gather[0]", {"S1", "B"}},
      {"all_to_all[0]", {"S0", "S1"}},    {"reduce_scatter[0]", {"P(sum)", "S0"}},
      {"all_reduce[0]", {"P(sum)", "B"}},
  };
  for (const auto& [recipe, ends] : cases) {
    const SymbolicBoxing boxing = Plan({line, One(ends.first)}, {line, One(ends.second)}, {16, 16});
    EXPECT_EQ(boxing.ToString(), recipe);
  }
}

TEST(Boxing, ErrorsSayWhatDoesNotFit) {
  const Mesh line = CellGridOf({2});
  const auto fails = [&](const Layout& from, const Layout& to, const std::string& named) {
    const auto boxing = FindBoxing(from, to, {4}, DType::kF32, Machine::Cpu());
    ASSERT_FALSE(boxing.ok()) << named;
    EXPECT_NE(std::string(boxing.status().message()).find(named), std::string::npos)
        << boxing.status();
  };
  fails({line, One("P(sum)")}, {line, One("P(max)")}, "P(sum) into P(max)");
  fails({line, One("S1")}, {line, One("B")}, "source");
  fails({line, One("B")}, {line, One("S1")}, "destination");
  fails({line, {}}, {line, One("B")}, "expected 1 entries");
  fails({line, One("B")}, {*Mesh::Parse("data=2 pipe=2"), {Sbp::B(), Sbp::B()}}, "stages");
}

TEST(BoxingPlanner, RemembersAndTellsApart) {
  BoxingPlanner planner{Machine::Cpu()};
  const Mesh line = CellGridOf({2}), other = CellGridOf({2}, 1);
  const SymbolicBoxing* first =
      *planner.Find({line, One("P(sum)")}, {line, One("B")}, {4}, DType::kF32);
  EXPECT_EQ(*planner.Find({line, One("P(sum)")}, {line, One("B")}, {4}, DType::kF32), first);
  EXPECT_NE(*planner.Find({line, One("P(max)")}, {line, One("B")}, {4}, DType::kF32), first);
  EXPECT_NE(*planner.Find({line, One("P(sum)")}, {line, One("B")}, {5}, DType::kF32), first);
  EXPECT_NE(*planner.Find({line, One("P(sum)")}, {line, One("B")}, {4, 1}, DType::kF32), first);
  EXPECT_NE(*planner.Find({line, One("P(sum)")}, {line, One("B")}, {4}, DType::kF64), first);
  EXPECT_NE(*planner.Find({line, One("P(sum)")}, {other, One("B")}, {4}, DType::kF32), first);
  EXPECT_FALSE(planner.Find({line, One("S3")}, {line, One("B")}, {4}, DType::kF32).ok());
  EXPECT_FALSE(planner.Find({line, One("S3")}, {line, One("B")}, {4}, DType::kF32).ok());
}

TEST(Definition, GatherUndoesScatterAndSeesReplicasThatDiffer) {
  std::mt19937_64 random(1);
  const Mesh grid = CellGridOf({2, 3});
  const Shape shape = {7, 5};
  const Array whole = RandomShards({CellGridOf({1}), One("B")}, shape, &random)[0];
  for (const NdSbp& sbp :
       AllNdSbps({Sbp::S(0), Sbp::S(1), Sbp::B(), Sbp::P(), Sbp::P(Reduction::kMin)}, 2, 2)) {
    const Layout layout = {grid, sbp};
    std::vector<Array> shards = ScatterReference(layout, whole);
    absl::StatusOr<Array> back = GatherReference(layout, shape, shards);
    ASSERT_TRUE(back.ok()) << back.status();
    for (size_t i = 0; i < whole.values.size(); ++i) {
      EXPECT_EQ(std::isnan(back->values[i]), std::isnan(whole.values[i]));
      if (!std::isnan(whole.values[i])) {
        EXPECT_EQ(back->values[i], whole.values[i]);
        EXPECT_EQ(std::signbit(back->values[i]), std::signbit(whole.values[i]));
      }
    }
    if (sbp[0].is_broadcast() || sbp[1].is_broadcast()) {
      shards[0].values[0] = shards[0].values[0] == 0 ? -shards[0].values[0] : 12345;
      EXPECT_EQ(GatherReference(layout, shape, shards).status().code(),
                absl::StatusCode::kDataLoss);
    }
  }
}

}  // namespace
}  // namespace sluice
