#include "framework/nn/layers.h"

#include <cmath>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace sluice {
namespace {

const VariableAttributes& InitOf(const Graph& graph, Tensor variable) {
  return std::get<VariableAttributes>(graph.node(graph.tensor(variable.id()).producer).attributes);
}

TEST(LayersTest, LinearMakesWeightAndBiasUnderItsScope) {
  Graph graph;
  Tensor x = graph.Input("x", DType::kF32, {2, 3, 4}, "");
  Tensor y = Linear(Scope(&graph) / "up", x, 5, "model:S1", "model:S0");
  ASSERT_TRUE(graph.status().ok()) << graph.status();
  EXPECT_EQ(y.shape(), (Shape{2, 3, 5}));
  Tensor weight = graph.FindVariable("up/weight"), bias = graph.FindVariable("up/bias");
  ASSERT_TRUE(weight && bias);
  EXPECT_EQ(weight.shape(), (Shape{4, 5}));
  EXPECT_EQ(bias.shape(), (Shape{5}));
  EXPECT_EQ(graph.tensor(weight.id()).annotation.ToString(), "model:S1");
  EXPECT_EQ(graph.tensor(bias.id()).annotation.ToString(), "model:S0");
  EXPECT_EQ(InitOf(graph, weight).init, "normal");
  EXPECT_EQ(InitOf(graph, weight).stddev, 0.02);
  EXPECT_EQ(InitOf(graph, bias).init, "zeros");
}

TEST(LayersTest, NormStartsAsTheIdentity) {
  Graph graph;
  Tensor y = Norm(Scope(&graph) / "norm", graph.Input("x", DType::kF32, {2, 4}, ""));
  EXPECT_EQ(y.shape(), (Shape{2, 4}));
  EXPECT_EQ(InitOf(graph, graph.FindVariable("norm/gamma")).init, "ones");
  EXPECT_EQ(InitOf(graph, graph.FindVariable("norm/beta")).init, "zeros");
}

TEST(LayersTest, GeluMlpIsMegatrons) {
  Graph graph;
  Tensor x = graph.Input("x", DType::kF32, {2, 4}, "");
  Tensor y = GeluMlp(Scope(&graph) / "mlp", x, 16, ResidualInit(8));
  ASSERT_TRUE(graph.status().ok()) << graph.status();
  EXPECT_EQ(y.shape(), (Shape{2, 4}));
  Tensor down = graph.FindVariable("mlp/down/weight");
  ASSERT_TRUE(down);
  EXPECT_EQ(down.shape(), (Shape{16, 4}));
  EXPECT_EQ(graph.tensor(down.id()).annotation.ToString(), "model:S0");
  EXPECT_DOUBLE_EQ(InitOf(graph, down).stddev, 0.02 / 4);
  EXPECT_EQ(graph.tensor(graph.FindVariable("mlp/up/weight").id()).annotation.ToString(),
            "model:S1");
  EXPECT_TRUE(graph.tensor(graph.FindVariable("mlp/down/bias").id()).annotation.empty());
}

TEST(LayersTest, ScalarsAreRefusedWithTheScope) {
  Graph graph;
  EXPECT_FALSE(Linear(Scope(&graph) / "up", graph.Input("x", DType::kF32, {}, ""), 5));
  EXPECT_NE(graph.status().message().find("up"), absl::string_view::npos) << graph.status();
}

}  // namespace
}  // namespace sluice
