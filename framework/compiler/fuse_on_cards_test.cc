// What becomes one op on CUDA devices, and what does not.
#include "framework/compiler/fuse_on_cards.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
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

using ::testing::Contains;
using ::testing::Pair;

// x w, and a bias.
struct Linear {
  Tensor product, bias;
};
Linear MakeLinear(Graph* graph, DType dtype, const char* x = "", const char* w = "",
                  const Shape& bias = {16}) {
  const Tensor input = graph->Input("x", dtype, {8, 12}, x);
  return {MatMul(input, graph->Input("w", dtype, {12, 16}, w)),
          graph->Input("bias", dtype, bias, "")};
}

// The ops of what `build` makes of a linear layer.
template <typename Build>
Counts OpsWith(DType dtype, Build&& build, const std::string& mesh = kCuda, bool fuse = true) {
  Graph graph;
  const Linear linear = MakeLinear(&graph, dtype);
  graph.Output("y", build(linear));
  EXPECT_TRUE(graph.Finish().ok()) << graph.status();
  return OpsOf(graph, mesh, fuse);
}

TEST(FuseOnCardsTest, ABiasOnCudaDevices) {
  const auto add = [](const Linear& linear) { return linear.product + linear.bias; };
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    Counts ops = OpsWith(dtype, add);
    EXPECT_EQ(ops["matmul_bias"], 1);
    EXPECT_EQ(ops["matmul"] + ops["add"], 0);
    ops = OpsWith(dtype, [](const Linear& linear) { return linear.bias + linear.product; });
    EXPECT_EQ(ops["matmul_bias"], 1) << "the bias first";
    ops = OpsWith(dtype, add, "data=1");
    EXPECT_EQ(ops["matmul_bias"], 0) << "on a CPU";
    EXPECT_EQ(ops["matmul"], 1);
    ops = OpsWith(dtype, add, kCuda, /*fuse=*/false);
    EXPECT_EQ(ops["matmul_bias"], 0) << "not fused";
  }
}

TEST(FuseOnCardsTest, ABiasIsAVectorAsLongAsRows) {
  for (const Shape& bias : {Shape({1, 16}), Shape({1}), Shape({8, 16}), Shape()}) {
    Graph graph;
    const Linear linear = MakeLinear(&graph, DType::kF32, "", "", bias);
    graph.Output("y", linear.product + linear.bias);
    ASSERT_TRUE(graph.Finish().ok()) << graph.status();
    EXPECT_EQ(OpsOf(graph)["matmul_bias"], 0) << bias.ToString();
  }
}

TEST(FuseOnCardsTest, AProductThatOthersReadStays) {
  EXPECT_EQ(OpsWith(DType::kF32,
                    [](const Linear& linear) {
                      return linear.product + linear.bias + Sigmoid(linear.product);
                    })["matmul_bias"],
            0);
  EXPECT_EQ(OpsWith(DType::kF32,
                    [](const Linear& linear) {
                      linear.product.graph()->Output("product", linear.product);
                      return linear.product + linear.bias;
                    })["matmul_bias"],
            0);
}

TEST(FuseOnCardsTest, GeluInBf16) {
  const auto gelu = [](const Linear& linear) { return Gelu(linear.product + linear.bias); };
  Counts ops = OpsWith(DType::kBF16, gelu);
  EXPECT_EQ(ops["matmul_bias_gelu"], 1);
  EXPECT_EQ(ops["matmul"] + ops["add"] + ops["gelu"] + ops["matmul_bias"], 0);
  ops = OpsWith(DType::kF32, gelu);
  EXPECT_EQ(ops["matmul_bias"], 1) << "the library's gelu is not exact enough";
  EXPECT_EQ(ops["gelu"], 1);
  ops = OpsWith(DType::kBF16,
                [](const Linear& linear) { return GeluErf(linear.product + linear.bias); });
  EXPECT_EQ(ops["matmul_bias"], 1) << "erf has no epilogue";
  EXPECT_EQ(ops["gelu_erf"], 1);
}

TEST(FuseOnCardsTest, WhatGeluReadsIsKeptForOthers) {
  Counts ops = OpsWith(DType::kBF16, [](const Linear& linear) {
    const Tensor x = linear.product + linear.bias, gelu = Gelu(x);
    return Multiply(gelu, Sigmoid(x));
  });
  EXPECT_EQ(ops["matmul_bias_gelu_aux"], 1);
  EXPECT_EQ(ops["gelu"] + ops["matmul_bias"] + ops["matmul_bias_gelu"], 0);
  EXPECT_EQ(ops["sigmoid"], 1);
  ops = OpsWith(DType::kBF16, [](const Linear& linear) {
    const Tensor x = linear.product + linear.bias;
    x.graph()->Output("x", x);
    return Gelu(x);
  });
  EXPECT_EQ(ops["matmul_bias_gelu_aux"], 1) << "fetched";
  // What reads x before gelu does would read what is not there yet.
  ops = OpsWith(DType::kBF16, [](const Linear& linear) {
    const Tensor x = linear.product + linear.bias, sigmoid = Sigmoid(x);
    return Multiply(Gelu(x), sigmoid);
  });
  EXPECT_EQ(ops["matmul_bias"], 1);
  EXPECT_EQ(ops["gelu"], 1);
}

TEST(FuseOnCardsTest, SplitProductsButNoneThatIsPartial) {
  // How x and w are split, and what is said of the bias and of the product.
  const auto counts = [](const char* x, const char* w, const char* bias, const char* product) {
    Graph graph;
    const Linear linear = MakeLinear(&graph, DType::kBF16, x, w);
    const Tensor added = Scale(linear.bias, 2).With(bias);
    graph.Output("y", Gelu(linear.product.With(product) + added));
    EXPECT_TRUE(graph.Finish().ok()) << graph.status();
    return OpsOf(graph, "model=2 @cuda");
  };
  EXPECT_THAT(counts("model:S0", "", "", ""), Contains(Pair("matmul_bias_gelu", 1)));
  EXPECT_THAT(counts("", "model:S1", "", ""), Contains(Pair("matmul_bias_gelu", 1)));
  // Summed up before the bias is added, and after: a bias that is partial keeps the sum so.
  for (const char* const bias : {"", "model:P(sum)"}) {
    const Counts partial = counts("model:S1", "model:S0", bias, "");
    EXPECT_THAT(partial, Contains(Pair("matmul", 1))) << bias;
    EXPECT_THAT(partial, Contains(Pair("add", 1))) << bias;
    EXPECT_THAT(partial, Contains(Pair("gelu", 1))) << bias;
  }
  EXPECT_THAT(counts("model:S0", "", "", "model:B"), Contains(Pair("matmul", 1)))
      << "a gather between";
}

// A step of four layers, one with an activation: what that keeps is what the next one's gradient
// ends with.
std::unique_ptr<const Graph> TrainingGraph(DType compute, Tensor (*activation)(Tensor),
                                           bool keeps = false) {
  Graph graph;
  const Scope scope(&graph);
  const auto layer = [&](Tensor x, const char* name, int64_t out) {
    const int64_t in = x.shape()[1];
    return MatMul(x, (scope / name).Param("weight", {in, out}, "", {"normal", 0.1})) +
           (scope / name).Param("bias", {out});
  };
  const Tensor x = graph.Input("x", DType::kF32, {8, 16}, "data:S0");
  const Tensor y = activation(layer(layer(x, "in", 8), "up", 32));
  graph.Output("loss", Mean(layer(layer(y, "down", 8), "out", 8)));
  if (keeps) graph.Output("y", y);
  EXPECT_TRUE(FinishIn({compute, DType::kF32}, &graph).ok()) << graph.status();
  auto train = RunPasses(graph, {Train(OptimizerOptions())});
  EXPECT_TRUE(train.ok()) << train.status();
  return *std::move(train);
}

Counts OpsOfTraining(DType compute, Tensor (*activation)(Tensor), bool keeps = false) {
  return OpsOf(*TrainingGraph(compute, activation, keeps), "data=2 @cuda");
}

TEST(FuseOnCardsTest, Training) {
  Counts ops = OpsOfTraining(DType::kBF16, Gelu);
  EXPECT_EQ(ops["matmul_bias_gelu_aux"], 1);
  EXPECT_EQ(ops["matmul_bias"], 3);
  EXPECT_EQ(ops["matmul_input_gradient"], 3);
  EXPECT_EQ(ops["gelu_gradient_sum_and_value"], 1);
  EXPECT_EQ(ops["reduce"], 4) << "of the other layers' biases, and of the loss";
  EXPECT_EQ(ops["gelu"] + ops["gelu_gradient"] + ops["matmul"], 0);
  for (const bool erf : {false, true}) {
    ops = OpsOfTraining(erf ? DType::kBF16 : DType::kF32, erf ? GeluErf : Gelu);
    EXPECT_EQ(ops["matmul_bias"], 4);
    EXPECT_EQ(ops[erf ? "gelu_erf_gradient_sum_and_value" : "gelu_gradient_sum_and_value"], 1);
    EXPECT_EQ(ops["reduce"], 4);
  }
}

// The gradient of the next layer's weight reads what gelu's gradient makes again, and nothing of
// what forward has made of x is kept but x. Unless the program keeps it anyway.
TEST(FuseOnCardsTest, WhatGeluMadeIsMadeAgain) {
  const auto compiled = CompileOn(*TrainingGraph(DType::kF32, Gelu), "data=2 @cuda", /*fuse=*/true);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  const Graph& graph = *compiled->programs[0].graph;
  int readers = 0;
  for (const Node& node : graph.nodes()) {
    if (node.op == &GeluOp()) {
      for (const Node& other : graph.nodes()) {
        const bool reads =
            std::count(other.inputs.begin(), other.inputs.end(), node.outputs[0]) > 0;
        EXPECT_TRUE(!reads || other.phase == Phase::kForward) << other.name;
      }
    }
    if (node.op != &MatMulWeightGradientOp()) continue;
    const Node& maker = graph.node(graph.tensor(node.inputs[0]).producer);
    readers += maker.op->name == "gelu_gradient_sum_and_value" ? 1 : 0;
  }
  EXPECT_EQ(readers, 1);
  Counts kept = OpsOfTraining(DType::kF32, Gelu, /*keeps=*/true);
  EXPECT_EQ(kept["gelu_gradient_sum"], 1);
  EXPECT_EQ(kept["gelu_gradient_sum_and_value"], 0);
}

TEST(FuseOnCardsTest, AGradientThatIsSummedOverAllButTheLastDimension) {
  const auto counts = [](Tensor (*use)(Tensor gradient), const char* dy = "data:S0",
                         const char* mesh = "data=2 @cuda") {
    Graph graph;
    const Tensor x = graph.Input("x", DType::kF32, {4, 8, 12}, dy);
    const Tensor gradient = graph.Add(GeluGradientOp(), NoAttributes(),
                                      {x, graph.Input("dy", DType::kF32, {4, 8, 12}, dy)})[0];
    graph.Output("dx", gradient);
    graph.Output("sum", use(gradient));
    EXPECT_TRUE(graph.Finish().ok()) << graph.status();
    return OpsOf(graph, mesh);
  };
  const auto of_bias = [](Tensor gradient) { return ReduceSum(gradient, {0, 1}); };
  for (const char* const dy : {"data:S0", "data:S1", "data:S2"}) {
    Counts ops = counts(of_bias, dy);
    EXPECT_EQ(ops["gelu_gradient_sum"], 1) << dy;
    EXPECT_EQ(ops["gelu_gradient"] + ops["reduce"], 0) << dy;
  }
  EXPECT_EQ(counts(of_bias, "data:S0", "data=2")["reduce"], 1) << "on CPUs";
  EXPECT_EQ(counts([](Tensor gradient) { return ReduceSum(gradient, {0}); })["reduce"], 1);
  EXPECT_EQ(counts([](Tensor gradient) { return ReduceSum(gradient, {1, 2}); })["reduce"], 1);
  EXPECT_EQ(counts([](Tensor gradient) { return ReduceMean(gradient, {0, 1}); })["reduce"], 1);
  EXPECT_EQ(counts([](Tensor gradient) { return ReduceMax(gradient, {0, 1}); })["reduce"], 1);
}

TEST(FuseOnCardsTest, ASumTakesTheCastOfATerm) {
  const auto counts = [](DType dtype, Tensor (*build)(Tensor a, Tensor b),
                         const char* mesh = "data=2 @cuda") {
    Graph graph;
    const Tensor a = graph.Input("a", DType::kF32, {8, 12}, "data:S0");
    graph.Output("y", build(a, graph.Input("b", dtype, {8, 12}, "data:S0")));
    EXPECT_TRUE(graph.Finish().ok()) << graph.status();
    return OpsOf(graph, mesh);
  };
  const auto second = [](Tensor a, Tensor b) { return a + Cast(b, DType::kF32); };
  Counts ops = counts(DType::kBF16, second);
  EXPECT_EQ(ops["cast_add"], 1);
  EXPECT_EQ(ops["cast"] + ops["add"], 0);
  ops = counts(DType::kBF16, [](Tensor a, Tensor b) { return Cast(b, DType::kF32) + a; });
  EXPECT_EQ(ops["cast_add"], 1) << "the first term";
  ops = counts(DType::kBF16, [](Tensor, Tensor b) {
    return Cast(b, DType::kF32) + Cast(Sigmoid(b), DType::kF32);
  });
  EXPECT_EQ(ops["cast_add"], 1) << "of two casts";
  EXPECT_EQ(ops["cast"], 1);
  ops = counts(DType::kBF16, [](Tensor a, Tensor b) {
    const Tensor cast = Cast(b, DType::kF32);
    return Multiply(a + cast, cast);
  });
  EXPECT_EQ(ops["cast_add"], 0) << "others read it";
  EXPECT_EQ(counts(DType::kI32, second)["cast_add"], 0) << "of something else";
  EXPECT_EQ(counts(DType::kBF16, second, "data=2")["cast_add"], 0) << "on CPUs";
}

// Of a job of both kinds, stages of cards alone.
TEST(FuseOnCardsTest, StagesOfCpusStay) {
  Graph graph;
  const Scope scope(&graph);
  Tensor x = graph.Input("x", DType::kF32, {8, 16}, "");
  for (const char* const name : {"first", "second"}) {
    const Scope block = scope.Block(name);
    const InScope here(block);
    x = MatMul(x, block.Param("weight", {16, 16}, "")) + block.Param("bias", {16});
  }
  graph.Output("y", x);
  ASSERT_TRUE(graph.Finish().ok()) << graph.status();
  const auto compiled = CompileOn(graph, "pipe=2 @cpu,cuda", true);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  Counts names;
  for (const Node& node : compiled->programs[0].graph->nodes())
    ++names[node.op->name + " " + node.name];
  EXPECT_THAT(names, Contains(Pair("matmul first", 1)));
  EXPECT_THAT(names, Contains(Pair("matmul_bias second", 1)));
}

// The instruction says what is in it, under the name of the product.
TEST(FuseOnCardsTest, APlanNamesWhatIsFused) {
  Graph graph;
  const Scope scope = Scope(&graph) / "up";
  {
    const InScope here(scope);
    const Linear linear = MakeLinear(&graph, DType::kBF16);
    graph.Output("y", Gelu(linear.product + linear.bias));
  }
  ASSERT_TRUE(graph.Finish().ok()) << graph.status();
  const auto compiled = CompileOn(graph, kCuda, true);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  Counts instructions;
  for (const plan::Actor& actor : compiled->plan.programs(0).actors()) {
    for (const plan::Instruction& x : actor.script()) ++instructions[x.op() + " of " + x.scope()];
  }
  EXPECT_THAT(instructions, Contains(Pair("matmul_bias_gelu of up", 1)));
}

TEST(FuseOnCardsTest, GradientsOfInputsAreAddedAsTheyAreMade) {
  using Build = std::vector<Tensor> (*)(Tensor other, const std::vector<Tensor>& products);
  const auto counts = [](Build build, const char* mesh = "data=2 @cuda",
                         const char* of_dy = "data:S0", const char* of_weight = "") {
    Graph graph;
    const Tensor other = graph.Input("other", DType::kBF16, {8, 16}, "data:S0");
    std::vector<Tensor> products;
    for (const char* name : {"a", "b", "c"}) {
      const Tensor dy = graph.Input(absl::StrCat("dy_", name), DType::kBF16, {8, 12}, of_dy);
      const Tensor weight = graph.Input(name, DType::kBF16, {16, 12}, of_weight);
      products.push_back(graph.Add(MatMulInputGradientOp(), MatMulAttributes(), {dy, weight})[0]);
    }
    int outputs = 0;
    for (const Tensor made : build(other, products)) {
      graph.Output(absl::StrCat("y", outputs++), made);
    }
    EXPECT_TRUE(graph.Finish().ok()) << graph.status();
    return OpsOf(graph, mesh);
  };
  const auto all = [](Tensor, const std::vector<Tensor>& p) { return std::vector{AddN(p)}; };
  Counts ops = counts(all);
  EXPECT_EQ(ops["matmul_input_gradient_add"], 2);
  EXPECT_EQ(ops["matmul_input_gradient"], 1);
  EXPECT_EQ(ops["add_n"], 0);
  ops = counts([](Tensor other, const std::vector<Tensor>& p) {
    return std::vector{other + p[0], p[1] + p[2]};
  });
  EXPECT_EQ(ops["matmul_input_gradient_add"], 2);
  EXPECT_EQ(ops["add"], 0);
  ops = counts([](Tensor, const std::vector<Tensor>& p) {
    return std::vector{AddN({p[1], p[0], p[2]})};
  });
  EXPECT_EQ(ops["add_n"], 1) << "in another order than they are made";
  ops = counts([](Tensor, const std::vector<Tensor>& p) { return std::vector{AddN(p), p[1]}; });
  EXPECT_EQ(ops["add_n"], 1) << "others read one";
  EXPECT_EQ(counts(all, "data=2 @cuda", "data:S1", "data:S1")["add_n"], 1) << "partial sums";
  EXPECT_EQ(counts(all, "data=2")["add_n"], 1) << "on CPUs";
}

TEST(FuseOnCardsTest, BothFoldsOfWholeRowsOfACrossEntropyAreOne) {
  const auto counts = [](const char* mesh, const char* of_logits) {
    Graph graph;
    const Tensor logits = graph.Input("logits", DType::kBF16, {8, 12}, of_logits);
    const Tensor loss = SoftmaxCrossEntropy(logits, graph.Input("labels", DType::kI32, {8}, ""));
    graph.Output("loss", loss);
    EXPECT_TRUE(graph.Finish().ok()) << graph.status();
    return OpsOf(graph, mesh);
  };
  for (const char* of_logits : {"data:S0", "data:B"}) {
    Counts ops = counts("data=2 @cuda", of_logits);
    EXPECT_EQ(ops["ce_max_and_sum_exp"], 1);
    EXPECT_EQ(ops["ce_max"] + ops["ce_sum_exp"], 0);
  }
  Counts ops = counts("data=2 @cuda", "data:S1");
  EXPECT_EQ(ops["ce_max_and_sum_exp"], 0) << "of shards of the classes";
  EXPECT_EQ(ops["ce_max"] * ops["ce_sum_exp"], 1);
  EXPECT_EQ(counts("data=2", "data:S0")["ce_max_and_sum_exp"], 0) << "on CPUs";
}

}  // namespace
}  // namespace sluice
