// What large tables cost, counted in compiled plans: each device has its share of every table and
// of its state, what crosses devices is ids and rows of a batch, and the wire does not know how
// many rows a table has.
#include <cstdint>
#include <cstdio>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/compiler/compile.h"
#include "framework/plan/statistics.h"
#include "framework/session/session.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/wide_and_deep/click_data.h"
#include "models/wide_and_deep/wide_and_deep.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kMillion = 1000000, kWidth = 16, kBatch = 512;

WideAndDeepConfig Config(int64_t vocabulary, bool columns) {
  WideAndDeepConfig config = LogTables(vocabulary);
  config.tables[0].width = kWidth;
  config.hidden = {64, 32};
  config.batch = kBatch;
  config.split_columns = columns;
  return config;
}

absl::Status Build(const WideAndDeepConfig& config, Graph* graph) {
  OptimizerOptions optimizer;
  optimizer.clip = 1;
  optimizer.groups = {WideGroup(50)};
  return BuildWideAndDeepTrain(config, optimizer, graph);
}

// What a plan says of the first device, and of a step of all devices.
struct Counted {
  int64_t table_bytes = 0, planned_bytes = 0, wire_bytes = 0;
};

Counted Count(int64_t vocabulary, const std::string& mesh, bool columns) {
  Counted counted;
  Graph graph;
  EXPECT_EQ(Build(Config(vocabulary, columns), &graph), absl::OkStatus());
  CompileOptions options;
  options.mesh = *Mesh::Parse(mesh);
  options.machine = Machine::Cpu();
  const auto plan = CompilePlan({{"train", &graph}}, options);
  EXPECT_TRUE(plan.ok()) << plan.status();
  if (!plan.ok()) return counted;
  for (const plan::Variable& variable : plan->variables()) {
    if (!absl::StrContains(variable.name(), "/table")) continue;
    for (const plan::VariableShard& shard : variable.shards()) {
      if (shard.device() != 0) continue;
      int64_t bytes = 4;
      for (const int64_t extent : shard.shard().local()) bytes *= extent;
      counted.table_bytes += bytes;
    }
  }
  counted.planned_bytes = plan->devices(0).memory_bytes();
  const auto index = ProgramIndex::Build(plan->programs(0));
  EXPECT_TRUE(index.ok()) << index.status();
  if (index.ok()) counted.wire_bytes = CountProgram(*index).wire_bytes;
  std::printf("%lld rows on %s%s: %lld bytes planned a device, %lld on the wire\n",
              static_cast<long long>(vocabulary), mesh.c_str(), columns ? " by columns" : "",
              static_cast<long long>(counted.planned_bytes),
              static_cast<long long>(counted.wire_bytes));
  return counted;
}

TEST(TableSplitTest, ADeviceHasItsShareOfEveryTable) {
  // Three numbers a weight of the deep table, Adam's two states with it, and of the wide one.
  const int64_t all = 3 * 4 * kMillion * (kWidth + 1);
  EXPECT_EQ(Count(kMillion, "model=1", false).table_bytes, all);
  for (const int64_t devices : {2, 4}) {
    for (const std::string axis : {"model", "table"}) {
      for (const bool columns : {false, true}) {
        const Counted split = Count(kMillion, absl::StrCat(axis, "=", devices), columns);
        EXPECT_EQ(split.table_bytes, all / devices) << axis;
        EXPECT_LT(split.planned_bytes, all / devices + (int64_t{16} << 20));
      }
    }
  }
}

TEST(TableSplitTest, TheWireDoesNotKnowHowManyRowsThereAre) {
  for (const char* mesh : {"model=2", "model=4", "table=2", "data=2 model=2"}) {
    for (const bool columns : {false, true}) {
      const Counted few = Count(kMillion / 100, mesh, columns);
      const Counted many = Count(kMillion, mesh, columns);
      EXPECT_GT(few.wire_bytes, 0);
      // Balanced cuts are as balanced whatever is cut.
      EXPECT_EQ(few.wire_bytes, many.wire_bytes) << mesh;
      // The deep table is 64 MB.
      EXPECT_LT(many.wire_bytes, int64_t{24} << 20) << mesh;
    }
  }
}

TEST(TableSplitTest, ExplainShowsTheSharesAndWhatMoves) {
  Graph graph;
  ASSERT_EQ(Build(Config(kMillion, false), &graph), absl::OkStatus());
  SessionOptions options;
  options.mesh = "model=4";
  const absl::StatusOr<std::string> text = Session::ExplainPlan({{"train", &graph}}, options);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_THAT(*text, HasSubstr("deep/fields/table f32[1000000,16]  stage 0  model:S0\n"));
  EXPECT_THAT(*text, HasSubstr("deep/fields (forward, stage 0): model:S0,B->P(sum)"));
  // Rows go to their samples, of weights their sums.
  EXPECT_THAT(*text, HasSubstr("deep/fields/flat (forward, stage 0): model:S0->S0"));
  EXPECT_THAT(*text, HasSubstr("wide/sum (forward, stage 0): model:P(sum)->P(sum)"));
  EXPECT_THAT(*text, HasSubstr("wide/numbers/add (forward, stage 0): model:S0,B->S0"));
  // Each device squares its own rows.
  EXPECT_THAT(*text, HasSubstr("deep/fields/table/sum_squares_sparse (update, stage 0): "
                               "model:S0,B,B->P(sum)"));
}

// One device's share of memory holds a fourth of the tables, and not all of them.
TEST(TableSplitTest, ACapThatOneDeviceCannotKeepNamesTheTable) {
  Graph graph;
  ASSERT_EQ(Build(Config(4 * kMillion, false), &graph), absl::OkStatus());
  SessionOptions options;
  options.device_memory_limit = int64_t{512} << 20;
  const std::string refused = "the plan does not fit: expected at most 536870912 bytes of memory ";
  options.mesh = "model=1";
  const absl::StatusOr<std::string> one = Session::ExplainPlan({{"train", &graph}}, options);
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_THAT(*one, HasSubstr(refused));
  EXPECT_THAT(one->substr(one->find(refused)),
              HasSubstr(" bytes of parameter deep/fields/table\n"));
  options.mesh = "model=4";
  const absl::StatusOr<std::string> four = Session::ExplainPlan({{"train", &graph}}, options);
  ASSERT_TRUE(four.ok()) << four.status();
  EXPECT_THAT(*four, Not(HasSubstr("does not fit")));
}

}  // namespace
}  // namespace sluice
