// The tiny GPT's plans in random orders: nobody reads what is being written, tokens arrive once and
// in order, every order gives the same values, and the counts end where they began.
#include <cstdint>
#include <set>
#include <string>

#include "framework/compiler/compile.h"
#include "framework/testing/interleaver.h"
#include "gtest/gtest.h"
#include "models/gpt/gpt.h"

namespace sluice {
namespace {

struct Layout {
  const char* mesh;
  int64_t micro;
  int seeds;
};

void RunSeeds(const Layout& layout) {
  SCOPED_TRACE(layout.mesh);
  GptConfig config;
  config.layers = 4;
  config.hidden = 128;
  config.heads = 4;
  config.sequence_length = 64;
  config.batch = 8;
  CompileOptions options;
  options.mesh = *Mesh::Parse(layout.mesh);
  options.micro_batches = layout.micro;
  Graph graph;
  OptimizerOptions optimizer;
  optimizer.clip = 1;
  ASSERT_TRUE(BuildGptTrain(config, optimizer, &graph).ok());
  const auto plan = CompilePlan({{"train", &graph}}, options);
  ASSERT_TRUE(plan.ok()) << plan.status();
  const auto index = ProgramIndex::Build(plan->programs(0));
  ASSERT_TRUE(index.ok()) << index.status();
  std::set<uint64_t> orders;
  InterleaverOptions interleaver;
  interleaver.steps = 2;
  SymbolicOutcome first;
  for (int seed = 0; seed < layout.seeds; ++seed) {
    interleaver.seed = static_cast<uint64_t>(seed);
    const auto run = RunInterleaved(*index, interleaver);
    ASSERT_TRUE(run.ok()) << "seed " << seed << ": " << run.status();
    orders.insert(run->order);
    if (seed == 0) first = run->outcome;
    ASSERT_TRUE(run->outcome.state == first.state) << "seed " << seed << " gives other values";
  }
  EXPECT_EQ(static_cast<int>(orders.size()), layout.seeds);
}

TEST(InterleavingTest, DataParallel) { RunSeeds({"data=2", 1, 1000}); }
TEST(InterleavingTest, Pipeline) { RunSeeds({"pipe=2", 4, 1000}); }
TEST(InterleavingTest, AllAxes) { RunSeeds({"data=2 model=2 pipe=2", 2, 200}); }

}  // namespace
}  // namespace sluice
