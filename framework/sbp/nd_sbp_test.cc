#include "framework/sbp/nd_sbp.h"

#include "gtest/gtest.h"

namespace sluice {
namespace {

const Mesh& CellGrid() {
  static const Mesh& mesh = *new Mesh(*Mesh::Parse("data=2 model=3"));
  return mesh;
}

template <typename T>
void ExpectError(const absl::StatusOr<T>& result, const std::string& named) {
  ASSERT_FALSE(result.ok()) << named;
  EXPECT_NE(std::string(result.status().message()).find(named), std::string::npos)
      << result.status();
}

TEST(NdSbp, TextFormIsTheSameBothWays) {
  for (const char* text : {"B", "S0", "S12", "P(sum)", "P(max)", "P(min)"}) {
    absl::StatusOr<Sbp> sbp = ParseSbp(text);
    ASSERT_TRUE(sbp.ok()) << sbp.status();
    EXPECT_EQ(ToString(*sbp), text);
  }
  for (const char* text : {"data:S0 model:B", "data:P(sum) model:S1", "data:B model:P(max)"}) {
    absl::StatusOr<NdSbp> sbp = ParseNdSbp(text, CellGrid());
    ASSERT_TRUE(sbp.ok()) << sbp.status();
    EXPECT_EQ(ToString(*sbp, CellGrid()), text);
  }
  EXPECT_EQ(*ParseNdSbp("", CellGrid()), AllBroadcast(CellGrid()));
  EXPECT_EQ(*ParseNdSbp("B", CellGrid()), AllBroadcast(CellGrid()));
  EXPECT_EQ(*ParseNdSbp("model:S1", CellGrid()), (NdSbp{Sbp::B(), Sbp::S(1)}));
  EXPECT_EQ(ToString(NdSbp(), Mesh::Parse("pipe=2")->Stage(0)), "B");
}

TEST(NdSbp, ErrorsNameTheWord) {
  for (const char* bad : {"", "b", "S", "S-1", "S+1", "S01", "S128", "S99999999999", "P", "P(none)",
                          "P(mean)", "S1 "}) {
    ExpectError(ParseSbp(bad), "\"" + std::string(bad) + "\"");
  }
  ExpectError(ParseNdSbp("expert:S0", CellGrid()), "\"expert\"");
  ExpectError(ParseNdSbp("data=S0", CellGrid()),
              "sbp: expected AXIS:SBP, such as model:S1, got \"data=S0\"");
  ExpectError(ParseNdSbp("data:Q", CellGrid()), "\"data:Q\"");
  ExpectError(ParseNdSbp("data:S0 data:B", CellGrid()), "axis data stands twice");
  ExpectError(ParseNdSbp("data:P(sum) model:P(max)", CellGrid()), "one kind of P");
  ExpectError(ParseNdSbp("pipe:S0", *Mesh::Parse("data=2 pipe=2")), "\"pipe\"");
}

TEST(NdSbp, CheckSeesRankAxesAndKinds) {
  EXPECT_TRUE(CheckNdSbp({Sbp::S(1), Sbp::P()}, CellGrid(), {4, 4}).ok());
  EXPECT_FALSE(CheckNdSbp({Sbp::S(2), Sbp::B()}, CellGrid(), {4, 4}).ok());
  EXPECT_FALSE(CheckNdSbp({Sbp::S(0)}, CellGrid(), {4, 4}).ok());
  EXPECT_FALSE(
      CheckNdSbp({Sbp::P(Reduction::kSum), Sbp::P(Reduction::kMax)}, CellGrid(), {4, 4}).ok());
  EXPECT_FALSE(CheckNdSbp({Sbp::B(), Sbp::B()}, *Mesh::Parse("data=2 pipe=2"), {4, 4}).ok());
}

TEST(SbpAnnotation, NameAxesThatNeedNotExist) {
  absl::StatusOr<SbpAnnotation> annotation = SbpAnnotation::Parse("model:S1 data:B");
  ASSERT_TRUE(annotation.ok()) << annotation.status();
  EXPECT_EQ(annotation->ToString(), "model:S1 data:B");
  ASSERT_NE(annotation->Find("model"), nullptr);
  EXPECT_EQ(*annotation->Find("model"), Sbp::S(1));
  EXPECT_EQ(annotation->Find("expert"), nullptr);
  EXPECT_TRUE(SbpAnnotation::Parse("")->empty());
  EXPECT_TRUE(SbpAnnotation::Parse("B")->empty());
  ExpectError(SbpAnnotation::Parse("model:S1 model:S0"), "axis model");
  ExpectError(SbpAnnotation::Parse("model:S1 S0"), "\"S0\"");
  ExpectError(SbpAnnotation::Parse("model:T1"), "\"model:T1\"");
}

TEST(Placement, CutsOutermostAxisFirst) {
  // 7 over 2: 4 and 3; 4 over 3: 2, 1, 1; 3 over 3: 1 each.
  const NdSbp nested = {Sbp::S(0), Sbp::S(0)};
  std::vector<Range> ranges;
  for (int64_t i = 0; i < CellGrid().num_devices(); ++i) {
    ranges.push_back(PlacementAt(CellGrid(), nested, {7, 2}, CellGrid().Coordinates(i)).box[0]);
  }
  EXPECT_EQ(ranges, (std::vector<Range>{{0, 2}, {2, 3}, {3, 4}, {4, 5}, {5, 6}, {6, 7}}));
  EXPECT_EQ(LargestShard(CellGrid(), nested, {7, 2}), 4);
  EXPECT_EQ(LargestShard(CellGrid(), AllBroadcast(CellGrid()), {7, 2}), 14);
  EXPECT_EQ(LargestShard(CellGrid(), nested, {0, 2}), 0);
}

TEST(Placement, PartialsCountOutermostAxisFirst) {
  const NdSbp partial = {Sbp::P(), Sbp::P()};
  EXPECT_EQ(PlacementAt(CellGrid(), partial, {2}, {1, 2}).partial, 5);
  EXPECT_EQ(PlacementAt(CellGrid(), {Sbp::B(), Sbp::P()}, {2}, {1, 2}).partial, 2);
  EXPECT_EQ(PlacementAt(CellGrid(), {Sbp::P(), Sbp::S(0)}, {2}, {1, 2}).partial, 1);
}

}  // namespace
}  // namespace sluice
