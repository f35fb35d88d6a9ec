// Norms on CUDA devices: what becomes one op with them, and what does not.
#include "framework/compiler/fuse_on_cards.h"

#include <memory>
#include <string>
#include <vector>

#include "framework/attributes/attributes.h"
#include "framework/compiler/fuse_on_cards_testing.h"
#include "framework/ops/op_defs.h"
#include "framework/ops/ops.h"
#include "framework/passes/mixed_precision.h"
#include "framework/passes/optimizer.h"
#include "framework/passes/pass.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

TEST(FuseNormsOnCardsTest, ANormTakesWhatIsDroppedOfTheSumBeforeIt) {
  const auto counts = [](DType dtype, Tensor (*sum)(Tensor x, Tensor branch),
                         const char* mesh = "data=2 @cuda") {
    Graph graph;
    const Tensor x = graph.Input("x", DType::kF32, {8, 12}, "data:S0");
    const Tensor branch = graph.Input("branch", dtype, {8, 12}, "data:S0");
    const Tensor gamma = graph.Input("gamma", DType::kF32, {12}, "");
    const Tensor beta = graph.Input("beta", DType::kF32, {12}, "");
    graph.Output("y", LayerNorm(sum(x, branch), gamma, beta, 1e-5));
    EXPECT_TRUE(graph.Finish().ok()) << graph.status();
    return OpsOf(graph, mesh);
  };
  const auto second = [](Tensor x, Tensor branch) { return x + Dropout(branch, 0.1); };
  Counts ops = counts(DType::kF32, second);
  EXPECT_EQ(ops["add_layer_norm"], 1);
  EXPECT_EQ(ops["dropout"] + ops["add"] + ops["layer_norm"], 0);
  ops = counts(DType::kF32, [](Tensor x, Tensor branch) { return Dropout(branch, 0.1) + x; });
  EXPECT_EQ(ops["dropout"], 0) << "the first term";
  ops = counts(DType::kBF16,
               [](Tensor x, Tensor branch) { return x + Cast(Dropout(branch, 0.1), DType::kF32); });
  EXPECT_EQ(ops["dropout"] + ops["cast"], 0) << "of bf16";
  ops = counts(DType::kBF16, [](Tensor x, Tensor branch) { return Cast(branch, DType::kF32) + x; });
  EXPECT_EQ(ops["add_layer_norm"], 1);
  EXPECT_EQ(ops["cast"], 0) << "a cast alone";
  ops = counts(DType::kBF16, [](Tensor x, Tensor branch) {
    const Tensor cast = Cast(branch, DType::kF32);
    cast.graph()->Output("cast", cast);
    return x + cast;
  });
  EXPECT_EQ(ops["cast"], 1) << "others read it";
  ops = counts(DType::kF32,
               [](Tensor x, Tensor branch) { return Dropout(x, 0.1) + Dropout(branch, 0.1); });
  EXPECT_EQ(ops["dropout"], 1) << "of both terms";
  ops = counts(DType::kF32, [](Tensor x, Tensor branch) {
    const Tensor dropped = Dropout(branch, 0.1);
    dropped.graph()->Output("dropped", dropped);
    return x + dropped;
  });
  EXPECT_EQ(ops["dropout"], 1) << "others read it";
  EXPECT_EQ(ops["add_layer_norm"], 1);
  ops = counts(DType::kF32, second, "data=2");
  EXPECT_EQ(ops["dropout"], 1) << "on CPUs";
}

TEST(FuseNormsOnCardsTest, ANormOfASumWithBf16IsCast) {
  const auto counts = [](DType dtype, bool kept, DType to = DType::kBF16) {
    Graph graph;
    const Tensor x = graph.Input("x", DType::kF32, {8, 12}, "data:S0");
    const Tensor branch = graph.Input("branch", dtype, {8, 12}, "data:S0");
    const Tensor gamma = graph.Input("gamma", DType::kF32, {12}, "");
    const Tensor beta = graph.Input("beta", DType::kF32, {12}, "");
    const Tensor y = LayerNorm(x + Cast(branch, DType::kF32), gamma, beta, 1e-5);
    graph.Output("low", Cast(y, to));
    if (kept) graph.Output("y", y);
    EXPECT_TRUE(graph.Finish().ok()) << graph.status();
    return OpsOf(graph, "data=2 @cuda");
  };
  Counts ops = counts(DType::kBF16, false);
  EXPECT_EQ(ops["add_layer_norm_cast"], 1);
  EXPECT_EQ(ops["cast"] + ops["add"] + ops["layer_norm"], 0);
  ops = counts(DType::kBF16, true);
  EXPECT_EQ(ops["add_layer_norm_and_cast"], 1) << "y is read";
  EXPECT_EQ(ops["cast"] + ops["add"] + ops["layer_norm"], 0);
  ops = counts(DType::kF32, false);
  EXPECT_EQ(ops["add_layer_norm"], 1) << "of f32 alone";
  ops = counts(DType::kBF16, false, DType::kI32);
  EXPECT_EQ(ops["add_layer_norm"], 1) << "cast to something else";
}

TEST(FuseNormsOnCardsTest, ANormTakesTheSumBeforeIt) {
  const auto counts = [](Tensor (*build)(Tensor x, Tensor branch, Tensor gamma, Tensor beta),
                         const char* mesh) {
    Graph graph;
    const Tensor x = graph.Input("x", DType::kF32, {8, 12}, "data:S0");
    const Tensor branch = graph.Input("branch", DType::kF32, {8, 12}, "data:S0");
    const Tensor gamma = graph.Input("gamma", DType::kF32, {12}, "");
    const Tensor beta = graph.Input("beta", DType::kF32, {12}, "");
    graph.Output("y", build(x, branch, gamma, beta));
    EXPECT_TRUE(graph.Finish().ok()) << graph.status();
    return OpsOf(graph, mesh);
  };
  const auto block = [](Tensor x, Tensor branch, Tensor gamma, Tensor beta) {
    const Tensor sum = x + branch;
    return LayerNorm(sum, gamma, beta, 1e-5) + sum;
  };
  Counts ops = counts(block, "data=2 @cuda");
  EXPECT_EQ(ops["add_layer_norm"], 1);
  EXPECT_EQ(ops["layer_norm"], 0);
  EXPECT_EQ(ops["add"], 1);
  ops = counts(block, "data=2");
  EXPECT_EQ(ops["layer_norm"], 1) << "on CPUs";
  EXPECT_EQ(ops["add"], 2);
  ops = counts(
      [](Tensor x, Tensor branch, Tensor gamma, Tensor beta) {
        const Tensor sum = x + branch, before = Sigmoid(sum);
        return LayerNorm(sum, gamma, beta, 1e-5) + before;
      },
      "data=2 @cuda");
  EXPECT_EQ(ops["layer_norm"], 1) << "the sum is read before";
  ops = counts([](Tensor x, Tensor, Tensor gamma,
                  Tensor beta) { return LayerNorm(x + gamma, gamma, beta, 1e-5); },
               kCuda);
  EXPECT_EQ(ops["layer_norm"], 1) << "of a vector and a matrix";
  ops = counts(
      [](Tensor x, Tensor branch, Tensor gamma, Tensor beta) {
        const Tensor sum = x + branch;
        return LayerNorm(sum, gamma, beta, 1e-5) + LayerNorm(sum, beta, gamma, 1e-5);
      },
      "data=2 @cuda");
  EXPECT_EQ(ops["add_layer_norm"], 1) << "two norms of one sum";
  EXPECT_EQ(ops["layer_norm"], 1);
}

TEST(FuseNormsOnCardsTest, ANormsGradientTakesTheSumBehindItAndWhatIsDroppedOfIt) {
  using Tensors = std::vector<Tensor>;
  const auto counts = [](Tensors (*use)(Tensor gradient, Tensor other),
                         const char* mesh = "data=2 @cuda") {
    Graph graph;
    const auto input = [&](const char* name, const Shape& shape, const char* sbp = "data:S0") {
      return graph.Input(name, DType::kF32, shape, sbp);
    };
    const Tensor dy = input("dy", {8, 12}), x = input("x", {8, 12});
    const Tensor gamma = input("gamma", {12}, ""), mean = input("mean", {8});
    const Tensor rstd = input("rstd", {8}), other = input("other", {8, 12});
    const Tensor gradient =
        graph.Add(LayerNormGradientOp(), NormAttributes(), {dy, x, gamma, mean, rstd})[0];
    int outputs = 0;
    for (const Tensor& made : use(gradient, other)) graph.Output(std::string(++outputs, 'y'), made);
    EXPECT_TRUE(graph.Finish().ok()) << graph.status();
    return OpsOf(graph, mesh);
  };
  Counts ops = counts([](Tensor gradient, Tensor other) { return Tensors{other + gradient}; });
  EXPECT_EQ(ops["layer_norm_gradient_add"], 1);
  EXPECT_EQ(ops["layer_norm_gradient"] + ops["add"], 0);
  ops = counts([](Tensor gradient, Tensor other) { return Tensors{gradient + other}; });
  EXPECT_EQ(ops["layer_norm_gradient_add"], 1) << "the first term";
  const auto with_dropped = [](Tensor gradient, Tensor other) {
    const Tensor sum = other + gradient;
    return Tensors{sum, Dropout(sum, 0.1)};
  };
  ops = counts(with_dropped);
  EXPECT_EQ(ops["layer_norm_gradient_add_dropout"], 1);
  EXPECT_EQ(ops["layer_norm_gradient"] + ops["add"] + ops["dropout"], 0);
  ops = counts(with_dropped, "data=2");
  EXPECT_EQ(ops["dropout"], 1) << "on CPUs";
  ops = counts([](Tensor gradient, Tensor other) {
    const Tensor sum = other + gradient;
    return Tensors{sum, Dropout(Cast(sum, DType::kBF16), 0.1)};
  });
  EXPECT_EQ(ops["layer_norm_gradient_add_cast_dropout"], 1);
  EXPECT_EQ(ops["cast"] + ops["dropout"], 0);
  ops = counts([](Tensor gradient, Tensor other) {
    const Tensor low = Cast(other + gradient, DType::kBF16);
    return Tensors{low, Dropout(low, 0.1)};
  });
  EXPECT_EQ(ops["layer_norm_gradient_add_cast"], 1) << "others read what was cast";
  EXPECT_EQ(ops["dropout"], 1);
  EXPECT_EQ(ops["cast"], 0);
  ops = counts([](Tensor gradient, Tensor other) { return Tensors{other + gradient, gradient}; });
  EXPECT_EQ(ops["layer_norm_gradient"], 1) << "others read it";
}

TEST(FuseNormsOnCardsTest, NormsGradientsReadWhatWasCastForThemAlone) {
  enum Others { kNone, kReadTheCast, kReadTheGradient };
  const auto counts = [](DType dtype, Others others, const char* mesh = "data=2 @cuda") {
    Graph graph;
    const auto input = [&](const char* name, const Shape& shape, const char* sbp = "data:S0") {
      return graph.Input(name, DType::kF32, shape, sbp);
    };
    const Tensor dy = Cast(graph.Input("dy", dtype, {8, 12}, "data:S0"), DType::kF32);
    const Tensor x = input("x", {8, 12}), mean = input("mean", {8}), rstd = input("rstd", {8});
    const Tensor gradient = graph.Add(LayerNormGradientOp(), NormAttributes(),
                                      {dy, x, input("gamma", {12}, ""), mean, rstd})[0];
    graph.Output("dx", gradient + input("other", {8, 12}));
    const std::vector<Tensor> of_parameters =
        graph.Add(LayerNormParameterGradientOp(), NoAttributes(), {dy, x, mean, rstd});
    graph.Output("dgamma", of_parameters[0]);
    graph.Output("dbeta", of_parameters[1]);
    if (others == kReadTheCast) graph.Output("also", Sigmoid(dy));
    if (others == kReadTheGradient) graph.Output("also", Sigmoid(gradient));
    EXPECT_TRUE(graph.Finish().ok()) << graph.status();
    return OpsOf(graph, mesh);
  };
  Counts ops = counts(DType::kBF16, kNone);
  EXPECT_EQ(ops["layer_norm_gradient_add"], 1);
  EXPECT_EQ(ops["cast_layer_norm_parameter_gradient"], 1);
  EXPECT_EQ(ops["cast"] + ops["layer_norm_parameter_gradient"], 0);
  for (const Others others : {kReadTheCast, kReadTheGradient}) {
    ops = counts(DType::kBF16, others);
    EXPECT_EQ(ops["layer_norm_parameter_gradient"], 1) << others;
    EXPECT_EQ(ops["cast"], 1) << others;
  }
  ops = counts(DType::kI32, kNone);
  EXPECT_EQ(ops["cast"], 1) << "of something else";
  ops = counts(DType::kBF16, kNone, "data=2");
  EXPECT_EQ(ops["cast"], 1) << "on CPUs";
}

// A step of a residual stream with a norm before its branch.
std::unique_ptr<const Graph> TrainingOfNorm(DType compute) {
  Graph graph;
  const Scope scope(&graph);
  const auto layer = [&](Tensor x, const char* name) {
    return MatMul(x, (scope / name).Param("weight", {16, 16}, "", {"normal", 0.1}));
  };
  const Tensor stream =
      graph.Input("x", DType::kF32, {8, 16}, "data:S0") + scope.Param("start", {16});
  const Tensor norm = LayerNorm(stream, scope.Param("gamma", {16}), scope.Param("beta", {16}));
  const Tensor end = stream + layer(norm, "a") + layer(norm, "b");
  graph.Output("loss", Mean(Multiply(end, end)));
  EXPECT_TRUE(FinishIn({compute, DType::kF32}, &graph).ok()) << graph.status();
  auto train = RunPasses(graph, {Train(OptimizerOptions())});
  EXPECT_TRUE(train.ok()) << train.status();
  return *std::move(train);
}

// The gradients of both layers' weights read what its gradient makes again, and nothing keeps what
// forward has made of the stream, in bf16.
TEST(FuseNormsOnCardsTest, WhatANormMadeIsMadeAgain) {
  constexpr char kAgain[] = "cast_layer_norm_parameter_gradient_and_value";
  const auto graph = TrainingOfNorm(DType::kBF16);
  const auto compiled = CompileOn(*graph, "data=2 @cuda", /*fuse=*/true);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  const Graph& fused = *compiled->programs[0].graph;
  int again = 0;
  for (const Node& node : fused.nodes()) {
    if (node.op != &MatMulWeightGradientOp()) continue;
    const Node& maker = fused.node(fused.tensor(node.inputs[0]).producer);
    again += maker.op->name == kAgain ? 1 : 0;
    EXPECT_EQ(maker.phase == Phase::kForward, maker.op->name != kAgain) << maker.name;
  }
  EXPECT_EQ(again, 2);
  EXPECT_EQ(OpsOf(*TrainingOfNorm(DType::kF32), "data=2 @cuda")[kAgain], 0);
  EXPECT_EQ(OpsOf(*graph, "data=2")[kAgain], 0) << "on CPUs";
}

// Of a norm that stands in the residual stream: what reads its gradient is no sum alone.
TEST(FuseNormsOnCardsTest, ANormsGradientIsCastWhereOthersReadItToo) {
  const auto counts = [](bool cast, bool other, const char* mesh = "data=2 @cuda") {
    Graph graph;
    const auto input = [&](const char* name, const Shape& shape, const char* sbp = "data:S0") {
      return graph.Input(name, DType::kF32, shape, sbp);
    };
    const Tensor gradient =
        graph.Add(LayerNormGradientOp(), NormAttributes(),
                  {input("dy", {8, 12}), input("x", {8, 12}), input("gamma", {12}, ""),
                   input("mean", {8}), input("rstd", {8})})[0];
    if (cast) graph.Output("low", Sigmoid(Cast(gradient, DType::kBF16)));
    graph.Output("dx", other ? gradient + input("other", {8, 12}) : Sigmoid(gradient));
    EXPECT_TRUE(graph.Finish().ok()) << graph.status();
    return OpsOf(graph, mesh);
  };
  for (const bool other : {false, true}) {
    Counts ops = counts(true, other);
    EXPECT_EQ(ops["layer_norm_gradient_cast"], 1);
    EXPECT_EQ(ops["cast"] + ops["layer_norm_gradient"], 0);
    EXPECT_EQ(ops["add"], other ? 1 : 0);
  }
  EXPECT_EQ(counts(false, false)["layer_norm_gradient"], 1);
  EXPECT_EQ(counts(false, true)["layer_norm_gradient_add"], 1);
  EXPECT_EQ(counts(true, false, "data=2")["cast"], 1) << "on CPUs";
}

}  // namespace
}  // namespace sluice
