// Which recipe the price takes, what planning costs on a thousand devices, and that the checks of
// phases find what is wrong.
#include "framework/sbp/phase_price.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/sbp/boxing.h"
#include "framework/sbp/boxing_testing.h"
#include "framework/sbp/phase_testing.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

SymbolicBoxing Find(const Mesh& mesh, const char* from, const char* to, const Shape& shape,
                    const Machine& machine) {
  const absl::StatusOr<SymbolicBoxing> found = FindBoxing(
      {mesh, *ParseNdSbp(from, mesh)}, {mesh, *ParseNdSbp(to, mesh)}, shape, DType::kF32, machine);
  EXPECT_TRUE(found.ok()) << found.status();
  return *found;
}

Machine NodesOfEight() {
  Machine machine;
  machine.devices_per_node = 8;
  return machine;
}

TEST(PhasePrice, SmallGroupsReduceDirectlyLargeOnesAtDistances) {
  const Machine machine;  // one node
  EXPECT_EQ(Find(CellGridOf({2}), "a:P(sum)", "B", {1}, machine).ToString(), "all_reduce[0]");
  EXPECT_EQ(Find(CellGridOf({8}), "a:P(sum)", "B", {1}, machine).ToString(), "all_reduce[0]");
  EXPECT_EQ(Find(CellGridOf({4}), "a:P(sum)", "B", {1 << 20}, machine).ToString(),
            "all_reduce[0]:split");
  // Without a term for each message, the direct recipe would have 255 of them.
  EXPECT_EQ(Find(CellGridOf({256}), "a:P(sum)", "B", {64}, machine).ToString(),
            "all_reduce[0]:halving");
  EXPECT_EQ(Find(CellGridOf({256}), "a:S0", "B", {256}, machine).ToString(),
            "all_gather[0]:doubling");
  EXPECT_EQ(Find(CellGridOf({256}), "a:P(sum)", "a:S0", {256}, machine).ToString(),
            "reduce_scatter[0]:halving");
}

TEST(PhasePrice, TwoLevelsWhereNodesDiffer) {
  const Machine machine = NodesOfEight();
  const Mesh mesh = CellGridOf({16});
  EXPECT_EQ(Find(mesh, "a:P(sum)", "B", {1 << 22}, machine).ToString(), "all_reduce[0]:two_level");
  EXPECT_EQ(Find(mesh, "a:S0", "B", {1 << 22}, machine).ToString(), "all_gather[0]:two_level");
  EXPECT_EQ(Find(mesh, "a:P(sum)", "a:S0", {1 << 22}, machine).ToString(),
            "reduce_scatter[0]:two_level");
  // Nodes of three out of six are no nodes of the tree of sums, but maxima may be taken anyhow.
  const Mesh six = CellGridOf({6});
  Machine threes = machine;
  threes.devices_per_node = 3;
  for (const auto& [p, two] : {std::pair{"a:P(sum)", false}, std::pair{"a:P(max)", true}}) {
    const std::string recipe = Find(six, p, "B", {1 << 22}, threes).ToString();
    EXPECT_EQ(recipe == "all_reduce[0]:two_level", two) << p << " " << recipe;
  }
}

// The same phase costs what its links cost: between nodes the far one, inside the near one.
TEST(PhasePrice, LinksAreThoseOfTheGroup) {
  Machine machine;
  machine.devices_per_node = 2;
  const Mesh mesh = CellGridOf({2, 2});  // a crosses nodes, b stays inside
  const SymbolicBoxing far = Find(mesh, "a:S0", "B", {1 << 20}, machine);
  const SymbolicBoxing near = Find(mesh, "b:S0", "B", {1 << 20}, machine);
  const int64_t half = 4 << 19;  // bytes
  const int64_t start = machine.launch_nanoseconds + machine.latency_nanoseconds * 3 / 2;
  EXPECT_EQ(far.nanoseconds, start + machine.LinkNanoseconds(half, true));
  EXPECT_EQ(near.nanoseconds, start + machine.LinkNanoseconds(half, false));
  EXPECT_EQ(far.bytes, near.bytes);
}

// An even layout's all-gather as the paper's Table 2 has it; the table's other rows are equal to
// the expansion's by boxing_phase_test.
TEST(PhasePrice, BytesAreThoseOfTable2) {
  const int64_t p = 4, bytes = 4 * 16 * 16;
  const Mesh mesh = CellGridOf({p});
  Machine machine;
  machine.latency_nanoseconds = machine.launch_nanoseconds = 0;  // the fewest bytes win
  const std::pair<std::pair<const char*, const char*>, int64_t> rows[] = {
      {{"a:S0", "a:S0"}, 0},
      {{"a:S0", "a:S1"}, (p - 1) * bytes / p},
      {{"a:S0", "B"}, (p - 1) * bytes},
      {{"a:S0", "a:P(sum)"}, 0},
      {{"B", "a:S0"}, 0},
      {{"B", "a:P(sum)"}, 0},
      {{"a:P(sum)", "a:S0"}, (p - 1) * bytes},
      {{"a:P(sum)", "B"}, 2 * (p - 1) * bytes},
  };
  for (const auto& [pair, moved] : rows) {
    const SymbolicBoxing found = Find(mesh, pair.first, pair.second, {16, 16}, machine);
    EXPECT_EQ(found.bytes, moved) << pair.first << " " << pair.second << found.ToString();
  }
}

// One device of 1,024: how much it says, and that it says it at once.
TEST(PhasePrice, OneDeviceOfAThousand) {
  const Machine machine = NodesOfEight();
  const Mesh mesh = CellGridOf({128, 8});
  const std::pair<const char*, const char*> pairs[] = {
      {"a:P(sum)", "B"},  {"a:P(sum)", "a:S0"},       {"a:S0", "B"},
      {"b:P(sum)", "B"},  {"a:P(sum) b:P(sum)", "B"}, {"b:S0", "b:S1"},
      {"a:S0 b:S1", "B"}, {"a:S0 b:S0", "a:S1 b:S0"}, {"a:P(sum) b:S1", "b:S1"}};
  for (const Shape& shape : {Shape{4096, 1024}, Shape{61, 7}, Shape{1021, 3}}) {
    for (const auto& [from, to] : pairs) {
      const auto begin = std::chrono::steady_clock::now();
      const SymbolicBoxing found = Find(mesh, from, to, shape, machine);
      const auto middle = std::chrono::steady_clock::now();
      size_t regions = 0, readers = 0;
      for (const BoxingPhase& phase : found.phases) {
        for (const PhaseWrite& write : PhaseSteps(phase, shape, 517)) {
          for (const PhaseRegion& region : write.regions) regions += region.sources.size();
        }
        for (const auto& step : PhaseReaders(phase, shape, 517)) readers += step.size();
      }
      const auto end = std::chrono::steady_clock::now();
      const auto micros = [](auto time) {
        return std::chrono::duration_cast<std::chrono::microseconds>(time).count();
      };
      const std::string what =
          absl::StrCat(from, " -> ", to, " of ", shape.ToString(), ": ", found.ToString());
      GTEST_LOG_(INFO) << what << ": found in " << micros(middle - begin) << " us, expanded in "
                       << micros(end - middle) << " us, " << regions << " sources, " << readers
                       << " readers";
      // 127 peers along the axis would be two hundred sources and more.
      EXPECT_LE(regions, 150u) << what;
      EXPECT_LE(readers, 150u) << what;
      EXPECT_LT(micros(end - begin), 200000) << what;  // a thousand times what it takes
    }
  }
}

// What each of the checks is for: it finds the mistake that it is there to find.
class Planted : public testing::Test {
 protected:
  ExpandedPhase Right() const { return Expand(phase, shape, machine); }

  const Mesh mesh = CellGridOf({4});
  const Machine machine = TwoLevelMachine(2);
  const Shape shape{8, 3};
  BoxingPhase phase = {
      BoxingRecipe::kAllReduceHalving, 0, 2, {mesh, {Sbp::P()}}, {mesh, {Sbp::B()}}};
};

TEST_F(Planted, InReaders) {
  EXPECT_EQ(CheckForm(Right(), machine), "");
  ExpandedPhase forgotten = Right();
  forgotten.readers[1][2].clear();
  EXPECT_EQ(CheckForm(forgotten, machine), "step 2: device 1 is read by {3}, says {}");
  ExpandedPhase invented = Right();
  invented.readers[0][0].push_back(3);
  EXPECT_EQ(CheckForm(invented, machine), "step 0: device 0 is read by {1}, says {1 3}");
}

TEST_F(Planted, InSources) {
  ExpandedPhase wrong = Right();
  wrong.writes[2][3].regions[0].sources[0].device = 1;  // holds another half there
  EXPECT_NE(CheckForm(wrong, machine).find("does not hold"), std::string::npos)
      << CheckForm(wrong, machine);
}

TEST_F(Planted, InPrices) {
  ExpandedPhase bytes = Right();
  ++bytes.load.near;
  EXPECT_EQ(CheckForm(bytes, machine), "moves 96+48, says 97+48");
  ExpandedPhase port = Right();
  --port.load.steps[1].far;
  EXPECT_EQ(CheckForm(port, machine), "step 1 brings 0+6 to the busiest, says 0+5");
  ExpandedPhase link = Right();
  std::swap(link.load.near, link.load.far);
  EXPECT_EQ(CheckForm(link, machine), "moves 96+48, says 48+96");
  ExpandedPhase messages = Right();
  for (PhaseStepLoad& step : messages.load.steps) step.messages = 0;
  EXPECT_EQ(CheckForm(messages, machine), "step 0 reads 2 devices, says 0");
}

// Sums from left to right have other bits than the tree of four.
TEST_F(Planted, InTheOrderOfSums) {
  std::mt19937_64 random(1);
  phase.recipe = BoxingRecipe::kAllReduce;
  const std::vector<Array> shards = RandomShards(phase.from, shape, &random);
  ExpandedPhase wrong = Right();
  const std::vector<Array> right = Execute(wrong, shards);
  for (auto& writes : wrong.writes) writes[0].regions[0].fold = {0, 1, -1, 2, -1, 3, -1};
  const std::vector<Array> other = Execute(wrong, shards);
  int different = 0;
  for (size_t i = 0; i < right[0].values.size(); ++i) {
    different += right[0].values[i] < other[0].values[i] || other[0].values[i] < right[0].values[i];
  }
  EXPECT_GT(different, 4);
}

}  // namespace
}  // namespace sluice
