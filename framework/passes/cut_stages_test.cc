#include "framework/passes/cut_stages.h"

#include <map>
#include <set>

#include "framework/graph/text.h"
#include "framework/ops/ops.h"
#include "framework/passes/optimizer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

// Four blocks, each a product with a weight of its own; the first and the last with a shared one.
void Build(Graph* graph, double clip) {
  const Scope root(graph);
  Tensor x = graph->Input("x", DType::kF32, {2, 4}, "data:S0");
  const Tensor shared = root.Param("shared", {4, 4});
  for (const char* name : {"a", "b", "c", "d"}) {
    const Scope block = root.Block(name);
    const InScope here(block);
    x = MatMul(x, block.Param("w", {4, 4}));
    x = MatMul(x, shared) + MatMul(x, shared);
  }
  const InScope here(root / "loss");
  OptimizerOptions options;
  options.clip = clip;
  ASSERT_TRUE(AddTraining(graph, Mean(x), options).ok());
  ASSERT_TRUE(graph->Finish().ok()) << graph->status();
}

std::map<std::string, int32_t> Stages(const Graph& graph) {
  std::map<std::string, int32_t> stages;
  for (const Node& node : graph.nodes()) stages[node.name] = node.stage;
  return stages;
}

TEST(CutStages, BlocksAreSpreadAndTheRestFollows) {
  Graph graph;
  Build(&graph, 1);
  const auto cut = RunPasses(graph, {CutStages(2)});
  ASSERT_TRUE(cut.ok()) << cut.status();
  std::map<std::string, int32_t> stages = Stages(**cut);
  for (const char* first : {"x", "shared", "shared.m", "shared/adamw", "a", "a/w", "b/w.v", "b/add",
                            "b/backward", "b/w/adamw"}) {
    ASSERT_EQ(stages.count(first), 1u) << first << "\n" << PrintGraph(**cut);
    EXPECT_EQ(stages[first], 0) << first;
  }
  for (const char* second : {"c", "c/w", "d/w.m", "d/w/adamw", "loss", "clip/norm"}) {
    ASSERT_EQ(stages.count(second), 1u) << second;
    EXPECT_EQ(stages[second], 1) << second;
  }
  for (const Node& node : graph.nodes()) EXPECT_EQ(node.stage, 0) << node.name;
}

TEST(CutStages, OneStageLeavesAllAsItIs) {
  Graph graph;
  Build(&graph, 1);
  const auto cut = RunPasses(graph, {CutStages(1)});
  ASSERT_TRUE(cut.ok()) << cut.status();
  EXPECT_EQ(PrintGraph(**cut), PrintGraph(graph));
}

// Of the eight terms of the shared weight's gradient four arise on each stage; of the squares of
// five gradients, three on the first. The sums of a stage cross, not the terms.
TEST(CutStages, TermsOfAStageAreAddedUpThere) {
  Graph graph;
  Build(&graph, 1);
  const auto cut = RunPasses(graph, {CutStages(2)});
  ASSERT_TRUE(cut.ok()) << cut.status();
  std::set<TensorId> crossing;
  for (const Node& node : (*cut)->nodes()) {
    for (TensorId input : node.inputs) {
      const Node& producer = (*cut)->node((*cut)->tensor(input).producer);
      if (producer.stage != node.stage && producer.phase != Phase::kForward) crossing.insert(input);
    }
  }
  // The gradient of what crossed forward, that of the shared weight, the squares, the clip's
  // factor.
  EXPECT_EQ(crossing.size(), 4u) << PrintGraph(**cut);
  std::map<std::string, int32_t> stages = Stages(**cut);
  EXPECT_EQ(stages.at("shared/backward/sum/stage1"), 1);
  EXPECT_EQ(stages.at("shared/backward/sum/stage0"), 0);
  EXPECT_EQ(stages.at("shared/backward/sum"), 0);
}

// As the gradient of a residual stream at the boundary: of both its terms one tensor crosses.
TEST(CutStages, ASumWhoseTermsAllComeFromAnotherStageIsMadeThere) {
  Graph graph;
  const Scope root(&graph);
  Tensor x = graph.Input("x", DType::kF32, {2, 4}, "data:S0");
  {
    const Scope block = root.Block("a");
    const InScope here(block);
    x = MatMul(x, block.Param("w", {4, 4}));
  }
  {
    const Scope block = root.Block("b");
    const InScope here(block);
    x = x + MatMul(x, block.Param("w", {4, 4}));
  }
  const InScope here(root / "loss");
  ASSERT_TRUE(AddTraining(&graph, Mean(x), OptimizerOptions()).ok());
  ASSERT_TRUE(graph.Finish().ok()) << graph.status();
  const auto cut = RunPasses(graph, {CutStages(2)});
  ASSERT_TRUE(cut.ok()) << cut.status();
  std::map<std::string, int32_t> stages = Stages(**cut);
  ASSERT_EQ(stages.count("a/backward/sum"), 1u) << PrintGraph(**cut);
  EXPECT_EQ(stages["a/backward/sum"], 1);
  EXPECT_EQ(stages["a/backward"], 0);
}

TEST(CutStages, AConstantIsMadeWhereItIsRead) {
  Graph graph;
  Build(&graph, 0);
  const auto cut = RunPasses(graph, {CutStages(4)});
  ASSERT_TRUE(cut.ok()) << cut.status();
  for (const Node& node : (*cut)->nodes()) {
    if (node.op->name != "adamw") continue;
    EXPECT_EQ((*cut)->node((*cut)->tensor(node.inputs[4]).producer).stage, node.stage) << node.name;
  }
}

TEST(CutStages, OneStageChangesNothingAndMoreThanBlocksAreRefused) {
  Graph graph;
  Build(&graph, 1);
  const auto one = RunPasses(graph, {CutStages(1)});
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_EQ(PrintGraph(**one), PrintGraph(graph));
  EXPECT_THAT(std::string(RunPasses(graph, {CutStages(5)}).status().message()),
              HasSubstr("pass cut_stages: mesh: expected at most one pipeline stage a block, 4, "
                        "got 5"));
}

}  // namespace
}  // namespace sluice
