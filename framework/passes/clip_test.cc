#include "framework/passes/clip.h"

#include <cmath>
#include <set>

#include "framework/graph/interpreter.h"
#include "framework/ops/ops.h"
#include "framework/passes/cut_stages.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

// Three stages; the loss is made so that the gradients are the inputs: a, b on stage 0, c on 2.
struct ThreeStages {
  Graph graph;
  VariableGradients gradients;
  GlobalNorm norm;

  explicit ThreeStages(double max_norm) {
    const Scope root(&graph);
    const auto term = [&](const char* name, int stage) {
      return ReduceSum(graph.Input(std::string("d") + name, DType::kF32, {2}, "") *
                           root.Stage(stage).Param(name, {2}),
                       {0});
    };
    const Tensor first = term("a", 0) + term("b", 0);
    const Tensor loss = first + term("c", 2) + term("e", 1);
    const absl::Status status = AddBackward(&graph, loss, &gradients);
    EXPECT_TRUE(status.ok()) << status;
    norm = AddGlobalNorm(&graph, gradients, max_norm);
    graph.Output("norm", norm.norm);
    if (norm.factor) graph.Output("factor", norm.factor);
    EXPECT_TRUE(graph.Finish().ok()) << graph.status();
  }

  ArrayMap Run(double a, double b, double c, double e) {
    ArrayMap feeds, variables = InitialVariables(graph, 1);
    feeds["da"] = Array({2}, a), feeds["db"] = Array({2}, b);
    feeds["dc"] = Array({2}, c), feeds["de"] = Array({2}, e);
    const auto outputs = Interpret(graph, feeds, &variables, {});
    EXPECT_TRUE(outputs.ok()) << outputs.status();
    return *outputs;
  }
};

TEST(Clip, TheNormIsThatOfAllGradientsOfAllStages) {
  ThreeStages run(2);
  ASSERT_EQ(run.gradients.size(), 4u);
  // Two elements each: the norm is sqrt(2 (1 + 4 + 9 + 2)) = sqrt(32).
  ArrayMap outputs = run.Run(1, -2, 3, std::sqrt(2));
  EXPECT_NEAR(outputs["norm"].values[0], std::sqrt(32.0), 1e-12);
  EXPECT_NEAR(outputs["factor"].values[0], 2 / (std::sqrt(32.0) + 1e-6), 1e-12);
  // Below the bound nothing is scaled; at the bound PyTorch's 1e-6 is seen.
  EXPECT_EQ(run.Run(0.5, 0.5, 0.5, 0)["factor"].values[0], 1);
  EXPECT_NEAR(run.Run(std::sqrt(2), 0, 0, 0)["factor"].values[0], 2 / (2 + 1e-6), 1e-12);
  EXPECT_EQ(run.Run(0, 0, 0, 0)["norm"].values[0], 0);
  EXPECT_TRUE(std::isnan(run.Run(NAN, 0, 0, 0)["factor"].values[0]));
}

TEST(Clip, OneScalarAStageCrosses) {
  ThreeStages run(2);
  const auto cut = CutStages(3).run(run.graph);
  ASSERT_TRUE(cut.ok()) << cut.status();
  std::set<std::string> crossing;
  for (const Node& node : (*cut)->nodes()) {
    if (node.phase != Phase::kUpdate) continue;
    for (TensorId id : node.inputs) {
      const Node& producer = (*cut)->node((*cut)->tensor(id).producer);
      if (producer.stage != node.stage) crossing.insert(producer.name);
    }
    if (node.name == "clip/norm") {
      EXPECT_EQ(node.stage, 2);
    }
  }
  EXPECT_THAT(crossing, ::testing::ElementsAre("clip/sum/stage0", "e/sum_squares"));
  EXPECT_EQ(run.graph.node(run.graph.tensor(run.norm.norm.id()).producer).phase, Phase::kUpdate);
  EXPECT_EQ(run.graph.context().phase, Phase::kForward);
}

TEST(Clip, ZeroNeverClipsButStillMeasures) {
  ThreeStages run(0);
  EXPECT_FALSE(run.norm.factor);
  EXPECT_NEAR(run.Run(3, 0, 0, 0)["norm"].values[0], std::sqrt(18.0), 1e-12);
}

}  // namespace
}  // namespace sluice
