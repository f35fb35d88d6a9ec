#include "framework/nn/model_size.h"

#include "framework/nn/layers.h"
#include "framework/ops/ops.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

TEST(ModelSizeTest, ProductsAndWhatLearnsAreCounted) {
  Graph graph;
  const Scope s(&graph);
  const Tensor x = graph.Input("x", DType::kF32, {2, 9, 9, 8}, "");
  Tensor y = Convolution(s / "conv", x, 6, {3, 3}, {.stride = {2, 2}, .padding = {1, 1}});
  y = Relu(BatchNorm(s / "norm", y, BatchNormOptions()));
  y = Linear(s / "fc", GlobalAveragePool(s / "pool", y), 10);
  ASSERT_TRUE(graph.status().ok()) << graph.status();
  const ModelSize size = SizeOfModel(graph);
  EXPECT_EQ(size.parameters, 3 * 3 * 8 * 6 + 2 * 6 + 6 * 10 + 10);  // no running statistics
  EXPECT_EQ(size.flops, 2 * (2 * 5 * 5 * 6) * (3 * 3 * 8) + 2 * 2 * 6 * 10);
}

}  // namespace
}  // namespace sluice
