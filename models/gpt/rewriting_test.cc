// Passes that change how a GPT is computed and not what: parity of its layouts holds with them,
// with dropout on.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "framework/compiler/compile.h"
#include "framework/graph/interpreter.h"
#include "framework/passes/mixed_precision.h"
#include "framework/passes/recompute.h"
#include "framework/tensor/random.h"
#include "framework/testing/parity.h"
#include "gtest/gtest.h"
#include "models/gpt/gpt.h"
#include "models/gpt/parity.h"

namespace sluice {
namespace {

constexpr uint64_t kSeed = 3;

GptConfig Small() {
  GptConfig config;
  config.vocabulary = 12;
  config.sequence_length = 6;
  config.layers = 2;
  config.heads = 2;
  config.hidden = 8;
  config.batch = 4;
  config.dropout = 0.25;
  return config;
}

std::vector<HostTensorMap> Feeds(const GptConfig& config) {
  std::vector<HostTensorMap> steps(3);
  for (size_t step = 0; step < steps.size(); ++step) {
    Array tokens(Shape{config.batch, config.sequence_length});
    for (size_t i = 0; i < tokens.values.size(); ++i) {
      tokens.values[i] = RandomWord(7, 1, step, i) % config.vocabulary;
    }
    steps[step].emplace("tokens", FromArray(tokens, DType::kI32));
    steps[step].emplace("labels", FromArray(tokens, DType::kI32));
    steps[step].emplace("learning_rate", FromArray(Array(Shape{}, 0.1), DType::kF32));
    steps[step].emplace("step", FromArray(Array(Shape{}, step + 1.0), DType::kI32));
  }
  return steps;
}

OptimizerOptions Sgd() {
  OptimizerOptions options;
  options.kind = OptimizerOptions::kSgd;
  options.momentum = 0.5;
  options.clip = 0.5;
  return options;
}

int CountOps(const Graph& graph, DType dtype, const std::string& part_of_name) {
  int count = 0;
  for (const Node& node : graph.nodes()) {
    count += node.name.find(part_of_name) != std::string::npos && !node.outputs.empty() &&
             graph.tensor(node.outputs[0]).type.dtype == dtype;
  }
  return count;
}

TEST(RewritingTest, WhatIsComputedAgainHasTheSameBits) {
  Graph kept;
  ASSERT_TRUE(BuildGptTrain(Small(), Sgd(), &kept).ok());
  const auto again = RunPasses(kept, {Recompute(RecomputedRegions::kBlocks)});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(CountOps(kept, DType::kF32, "/again"), 0);
  EXPECT_GT(CountOps(**again, DType::kF32, "dropout/again"), 0);
  const auto feeds = Feeds(Small());
  const auto expected = InterpretSteps(kept, feeds, kSeed),
             got = InterpretSteps(**again, feeds, kSeed);
  ASSERT_TRUE(expected.ok() && got.ok()) << expected.status() << got.status();
  for (size_t step = 0; step < feeds.size(); ++step) {
    for (const auto& [name, value] : expected->variables[step]) {
      EXPECT_EQ(got->variables[step].at(name).values, value.values) << name << " " << step;
    }
    EXPECT_EQ(got->outputs[step].at("loss").values, expected->outputs[step].at("loss").values);
  }
}

// On the product's kernels, and what it is for: the plan needs less memory.
TEST(RewritingTest, KernelsComputeAgainTheSameBitsInLessMemory) {
  GptLayout again{"data=1"};
  again.recompute = true;
  const auto kept_run = ParityRun::Start(GptParity({"data=1"}), AdamWWithClip());
  const auto again_run = ParityRun::Start(GptParity(again), AdamWWithClip());
  ASSERT_TRUE(kept_run.ok() && again_run.ok()) << kept_run.status() << again_run.status();
  for (int64_t step = 0; step < 4; ++step) {
    const auto expected = (*kept_run)->Step(step), got = (*again_run)->Step(step);
    ASSERT_TRUE(expected.ok() && got.ok()) << expected.status() << got.status();
    EXPECT_EQ(got->loss, expected->loss) << step;
    EXPECT_EQ(got->grad_norm, expected->grad_norm) << step;
  }
  const auto kept_plan = CompileParityPlan(GptParity({"data=1"}), AdamWWithClip());
  const auto again_plan = CompileParityPlan(GptParity(again), AdamWWithClip());
  ASSERT_TRUE(kept_plan.ok() && again_plan.ok());
  EXPECT_LT(again_plan->devices(0).memory_bytes(), kept_plan->devices(0).memory_bytes());
}

// Products in bf16, computed again: on every mesh within the rounding of 8 bits of what the
// interpreter makes of the same graph in f64.
TEST(RewritingTest, LayoutsAgreeOnProductsInBf16) {
  constexpr double kTolerance = 2e-2;
  Graph loss;
  ASSERT_TRUE(BuildGptLoss(Small(), &loss).ok());
  const auto graph = RunPasses(loss, {MixedPrecision({.compute = DType::kBF16}), Train(Sgd()),
                                      Recompute(RecomputedRegions::kBlocks)});
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_GT(CountOps(**graph, DType::kBF16, "h1/mlp/up/backward"), 0);
  for (const auto& [gradient, parameter] : (*graph)->TensorsOf(Role::kGradient)) {
    EXPECT_EQ((*graph)->tensor(gradient).type.dtype, DType::kF32);
  }
  const auto feeds = Feeds(Small());
  const auto reference = InterpretSteps(**graph, feeds, kSeed);
  ASSERT_TRUE(reference.ok()) << reference.status();
  for (const char* mesh : {"data=1", "data=2", "model=2", "pipe=2", "data=2 model=2 pipe=2"}) {
    CompileOptions options;
    options.mesh = *Mesh::Parse(mesh);
    options.micro_batches = 2;
    options.machine = Machine::Cpu();
    const auto plan = CompilePlan({{"train", graph->get()}}, options);
    ASSERT_TRUE(plan.ok()) << mesh << ": " << plan.status();
    PlanExecutorOptions run;
    run.seed = kSeed;
    const absl::Status status = CompareWithReference(*plan, feeds, *reference, kTolerance, run);
    EXPECT_TRUE(status.ok()) << mesh << ": " << status;
    // The products do round: in f32 all would be far nearer to the interpreter's f64.
    EXPECT_FALSE(CompareWithReference(*plan, feeds, *reference, 1e-5, run).ok()) << mesh;
  }
}

}  // namespace
}  // namespace sluice
