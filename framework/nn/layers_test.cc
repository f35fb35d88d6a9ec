#include "framework/nn/layers.h"

#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/graph/interpreter.h"
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

TEST(LayersTest, ConvolutionsStartAsPyTorchs) {
  Graph graph;
  const Tensor x = graph.Input("x", DType::kF32, {2, 9, 9, 8}, "");
  const Tensor y = Convolution(Scope(&graph) / "conv", x, 6, {3, 3},
                               {.stride = {2, 2}, .padding = {1, 1}, .groups = 2}, "model:S3");
  ASSERT_TRUE(graph.status().ok()) << graph.status();
  EXPECT_EQ(y.shape(), (Shape{2, 5, 5, 6}));
  const Tensor weight = graph.FindVariable("conv/weight");
  ASSERT_TRUE(weight);
  EXPECT_EQ(weight.shape(), (Shape{3, 3, 4, 6}));
  EXPECT_EQ(graph.tensor(weight.id()).annotation.ToString(), "model:S3");
  EXPECT_EQ(InitOf(graph, weight).init, "uniform");
  EXPECT_DOUBLE_EQ(InitOf(graph, weight).stddev * std::sqrt(3.0), 1.0 / 6);  // fan_in 36
  Convolution(Scope(&graph) / "other", x, 6, {1, 1}, {}, "", NormalInit(0.5));
  EXPECT_EQ(InitOf(graph, graph.FindVariable("other/weight")).stddev, 0.5);
}

std::string GroupsError(int64_t groups, int64_t micro_batches, const std::string& mesh) {
  return std::string(CheckBatchNormGroups(groups, 16, micro_batches, *Mesh::Parse(mesh)).message());
}

TEST(LayersTest, GroupsThatWouldBeCutAreRefused) {
  for (const auto& [groups, micro_batches, mesh] :
       std::vector<std::tuple<int64_t, int64_t, std::string>>{{1, 1, "data=3"},
                                                              {1, 2, "data=1"},
                                                              {4, 1, "data=2 model=3"},
                                                              {4, 2, "data=2"},
                                                              {2, 2, "data=4"},
                                                              {16, 4, "pipe=3"}}) {
    EXPECT_EQ(GroupsError(groups, micro_batches, mesh), "") << groups << " on " << mesh;
  }
  EXPECT_EQ(GroupsError(3, 1, "data=1"), "groups: expected a divisor of the batch, 16, got 3");
  EXPECT_EQ(
      GroupsError(2, 1, "data=4"),
      "groups: expected 1, or whole groups for each of 4 devices of axis data, got 2 of 2 for "
      "them, of which some would be cut");
  EXPECT_EQ(GroupsError(4, 8, "data=1"),
            "groups: expected 1, or whole groups for each of 8 micro-batches, got 4 of 4 for them, "
            "of which some would be cut");
  EXPECT_NE(GroupsError(8, 2, "data=3"), "");
  // Where a batch is split over two axes, both cut it.
  const Mesh both = *Mesh::Parse("data=2 model=3");
  EXPECT_TRUE(CheckBatchNormGroups(6, 12, 1, both, {"data", "model"}).ok());
  EXPECT_TRUE(CheckBatchNormGroups(2, 12, 1, both, {"data", "model"}).ok());
  EXPECT_TRUE(CheckBatchNormGroups(4, 12, 1, both).ok());
  EXPECT_EQ(CheckBatchNormGroups(4, 12, 1, both, {"data", "model"}).message(),
            "groups: expected 1, or whole groups for each of 3 devices of axis model, got 2 of 4 "
            "for them, of which some would be cut");
}

TEST(LayersTest, BatchNormMayHaveNoScale) {
  Graph graph;
  BatchNormOptions options;
  options.learns_gamma = false;
  ASSERT_TRUE(
      BatchNorm(Scope(&graph) / "norm", graph.Input("x", DType::kF32, {4, 8}, ""), options));
  EXPECT_FALSE(graph.FindVariable("norm/gamma"));
  EXPECT_TRUE(graph.FindVariable("norm/beta"));
}

TEST(LayersTest, BatchNormSplitByChannelsSaysSoOfAllThatItKeeps) {
  Graph graph;
  const Tensor x = graph.Input("x", DType::kF32, {4, 3, 3, 8}, "");
  BatchNormOptions options;
  options.gamma = {"zeros"};
  options.annotation = "model:S0";
  BatchNorm(Scope(&graph) / "norm", x, options);
  ASSERT_TRUE(graph.status().ok()) << graph.status();
  for (const char* name : {"gamma", "beta", "running_mean", "running_variance"}) {
    const Tensor variable = graph.FindVariable(absl::StrCat("norm/", name));
    ASSERT_TRUE(variable) << name;
    EXPECT_EQ(graph.tensor(variable.id()).annotation.ToString(), "model:S0") << name;
  }
  EXPECT_EQ(InitOf(graph, graph.FindVariable("norm/gamma")).init, "zeros");
}

TEST(LayersTest, PoolsOfImages) {
  Graph graph;
  const Tensor x = graph.Input("x", DType::kF32, {2, 9, 9, 8}, "");
  const Scope scope(&graph);
  EXPECT_EQ(
      MaxPool(scope / "a", x, {.window = {3, 3}, .stride = {2, 2}, .padding = {1, 1}}).shape(),
      (Shape{2, 5, 5, 8}));
  EXPECT_EQ(AveragePool(scope / "b", x, {.window = {2, 2}}).shape(), (Shape{2, 4, 4, 8}));
  EXPECT_EQ(GlobalAveragePool(scope / "c", x).shape(), (Shape{2, 8}));
  ASSERT_TRUE(graph.status().ok()) << graph.status();
  EXPECT_FALSE(GlobalAveragePool(scope / "d", GlobalAveragePool(scope / "e", x)));
  EXPECT_NE(graph.status().message().find("got [2,8]"), absl::string_view::npos);
}

TEST(LayersTest, ConvolutionsRefuseGroupsThatDoNotDivide) {
  Graph graph;
  const Tensor x = graph.Input("x", DType::kF32, {2, 9, 9, 8}, "");
  EXPECT_FALSE(Convolution(Scope(&graph) / "conv", x, 6, {3, 3}, {.groups = 3}));
  EXPECT_NE(graph.status().message().find("groups that divide 8 channels, got [3,3] and 3"),
            absl::string_view::npos)
      << graph.status();
}

TEST(LayersTest, NormStartsAsTheIdentity) {
  Graph graph;
  Tensor y = Norm(Scope(&graph) / "norm", graph.Input("x", DType::kF32, {2, 4}, ""));
  EXPECT_EQ(y.shape(), (Shape{2, 4}));
  EXPECT_EQ(InitOf(graph, graph.FindVariable("norm/gamma")).init, "ones");
  EXPECT_EQ(InitOf(graph, graph.FindVariable("norm/beta")).init, "zeros");
}

// x [4, 2, 1] as one channel of two groups: {1, 2, 3, 6} and {0, 4, 4, 4}.
ArrayMap BatchNormValues() {
  ArrayMap feeds;
  feeds["x"] = Array({4, 2, 1});
  feeds["x"].values = {1, 2, 3, 6, 0, 4, 4, 4};
  return feeds;
}

// torch.nn.BatchNorm2d by hand: biased variance normalizes, the unbiased one is kept.
TEST(LayersTest, BatchNormNormalizesGroupsAndKeepsTheirMeanStatistics) {
  Graph graph;
  const Tensor x = graph.Input("x", DType::kF32, {4, 2, 1}, "");
  graph.Output("y", BatchNorm(Scope(&graph) / "bn", x, {.groups = 2}));
  ASSERT_TRUE(graph.Finish().ok()) << graph.status();
  ArrayMap variables = InitialVariables(graph, 0);
  EXPECT_EQ(variables.at("bn/running_mean").values[0], 0);
  EXPECT_EQ(variables.at("bn/running_variance").values[0], 1);
  variables["bn/gamma"].values[0] = 2;
  variables["bn/beta"].values[0] = 0.5;
  const auto outputs = Interpret(graph, BatchNormValues(), &variables, {});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  const std::vector<double>& y = outputs->at("y").values;
  // Means 3 and 3, biased variances 3.5 and 3, unbiased 14/3 and 4.
  EXPECT_NEAR(y[0], -2 * 2 / std::sqrt(3.5 + 1e-5) + 0.5, 1e-6);
  EXPECT_NEAR(y[3], 2 * 3 / std::sqrt(3.5 + 1e-5) + 0.5, 1e-6);
  EXPECT_NEAR(y[4], -2 * 3 / std::sqrt(3 + 1e-5) + 0.5, 1e-6);
  EXPECT_NEAR(variables.at("bn/running_mean").values[0], 0.1 * 3, 1e-7);
  EXPECT_NEAR(variables.at("bn/running_variance").values[0], 0.9 + 0.1 * (14.0 / 3 + 4) / 2, 1e-6);
}

TEST(LayersTest, BatchNormEvaluatesByWhatWasKept) {
  Graph graph;
  const Tensor x = graph.Input("x", DType::kF32, {4, 2, 1}, "");
  graph.Output("y", BatchNorm(Scope(&graph) / "bn", x, {.training = false}));
  ASSERT_TRUE(graph.Finish().ok()) << graph.status();
  ArrayMap variables = InitialVariables(graph, 0);
  variables["bn/running_mean"].values[0] = 1;
  variables["bn/running_variance"].values[0] = 4;
  const auto outputs = Interpret(graph, BatchNormValues(), &variables, {});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_NEAR(outputs->at("y").values[3], 5 / std::sqrt(4 + 1e-5), 1e-6);
  EXPECT_EQ(variables.at("bn/running_mean").values[0], 1);  // and changes nothing
}

TEST(LayersTest, BatchNormRefusesGroupsThatDoNotDivideOrHaveOneValue) {
  for (const int64_t groups : {3, 4}) {
    Graph graph;
    BatchNorm(Scope(&graph) / "bn", graph.Input("x", DType::kF32, {4, 2}, ""), {.groups = groups});
    EXPECT_NE(graph.status().message().find(absl::StrCat(groups, " groups")),
              absl::string_view::npos)
        << graph.status();
  }
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
