// What the models ask cuDNN for is in the table of what it supports
// (framework/kernels/cuda/testdata/cudnn_support.txt): every convolution but those that are
// products as they lie, and bf16 attention, by shapes without the batch. What is missing belongs
// into cudnn_cases.cc or cudnn_attention_cases.cc.
#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/gpu_models.h"
#include "framework/attributes/attributes.h"
#include "framework/graph/graph.h"
#include "framework/graph/op_def.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/insightface/insightface.h"
#include "models/resnet/resnet.h"

namespace sluice {
namespace {

// The cases of the table without card, model, pass, type and batch.
std::set<std::string> Shapes(const std::string& op) {
  std::ifstream file("framework/kernels/cuda/testdata/cudnn_support.txt");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  EXPECT_FALSE(text.empty());
  std::set<std::string> shapes;
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = text.find('\n', begin);
    const std::string line = text.substr(begin, end - begin);
    begin = end == std::string::npos ? text.size() : end + 1;
    const size_t colon = line.find(':');
    if (!absl::StrContains(line, absl::StrCat(" ", op, " ")) || colon == std::string::npos)
      continue;
    const size_t from = line.find(op == "conv2d" ? "c=" : "heads=");
    shapes.insert(line.substr(from, colon - from));
  }
  return shapes;
}

std::vector<std::string> Without(const std::set<std::string>& all,
                                 const std::set<std::string>& some) {
  std::vector<std::string> rest;
  std::set_difference(all.begin(), all.end(), some.begin(), some.end(), std::back_inserter(rest));
  return rest;
}

// Shapes of the convolutions of a graph that a card computes by cuDNN.
void AddConvolutions(const Graph& graph, std::set<std::string>* shapes) {
  for (const Node& node : graph.nodes()) {
    if (node.op->name != "conv2d") continue;
    const auto& a = std::get<ConvolutionAttributes>(node.attributes);
    const Shape &x = graph.tensor(node.inputs[0]).type.shape,
                &w = graph.tensor(node.inputs[1]).type.shape;
    ASSERT_TRUE(x[1] == x[2] && w[0] == w[1] && a.stride[0] == a.stride[1]) << node.name;
    if (w[0] == 1 && a.stride[0] == 1 && a.groups == 1) continue;
    shapes->insert(absl::StrFormat("c=%d size=%d out=%d window=%d stride=%d groups=%d", x[3], x[1],
                                   w[3], w[0], a.stride[0], a.groups));
  }
}

TEST(CudnnShapesTest, ConvolutionsOfTheModelsAreInTheTable) {
  std::set<std::string> shapes;
  for (const int64_t depth : {18, 50}) {
    ResNetConfig config;
    config.depth = depth;
    Graph graph;
    ASSERT_EQ(BuildResNetLoss(config, &graph), absl::OkStatus());
    AddConvolutions(graph, &shapes);
  }
  for (const std::string& network : FaceNetworks()) {
    FaceConfig config;
    config.network = network;
    Graph graph;
    ASSERT_EQ(BuildFaceLoss(config, &graph), absl::OkStatus()) << network;
    AddConvolutions(graph, &shapes);
  }
  EXPECT_GT(shapes.size(), 20u);
  EXPECT_THAT(Without(shapes, Shapes("conv2d")), testing::IsEmpty());
}

TEST(CudnnShapesTest, AttentionOfTheModelsIsInTheTable) {
  std::set<std::string> shapes;
  for (const char* name : {"gpt2_124m", "gpt2_350m", "bert_base"}) {
    const auto model = GpuModelOf(name, DType::kBF16, /*small=*/false);
    ASSERT_EQ(model.status(), absl::OkStatus());
    Graph graph;
    ASSERT_EQ(model->build(&graph), absl::OkStatus());
    for (const Node& node : graph.nodes()) {
      if (node.op->name != "attention" && node.op->name != "padded_attention") continue;
      const Shape& q = graph.tensor(node.inputs[0]).type.shape;  // [batch, time, heads, size]
      shapes.insert(absl::StrFormat("heads=%d time=%d size=%d", q[2], q[1], q[3]));
    }
  }
  EXPECT_EQ(shapes.size(), 3u);
  EXPECT_THAT(Without(shapes, Shapes("attention")), testing::IsEmpty());
}

}  // namespace
}  // namespace sluice
