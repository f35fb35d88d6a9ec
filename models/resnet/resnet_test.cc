#include "models/resnet/resnet.h"

#include <string>
#include <tuple>
#include <vector>

#include "framework/nn/model_size.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

ResNetConfig Of(int64_t depth) {
  ResNetConfig config;
  config.depth = depth;
  config.batch = 1;
  return config;
}

// Parameters and, in 1e9, multiplications and additions of one picture, as torchvision's page of
// its models lists them.
TEST(ResNetTest, SizesAreTorchvisions) {
  for (const auto& [depth, parameters, products] :
       std::vector<std::tuple<int64_t, int64_t, double>>{{18, 11689512, 1.814},
                                                         {34, 21797672, 3.664},
                                                         {50, 25557032, 4.089},
                                                         {101, 44549160, 7.801}}) {
    ResNetConfig config = Of(depth);
    config.batch = 2;  // of one, the last images have one value a channel
    config.image_size = 224;
    Graph loss;
    const absl::Status built = BuildResNetLoss(config, &loss);
    ASSERT_TRUE(built.ok()) << built;
    const ModelSize size = SizeOfModel(loss);
    EXPECT_EQ(size.parameters, parameters) << depth;
    EXPECT_NEAR(static_cast<double>(size.flops) / 4e9, products, 0.01) << depth;
  }
}

TEST(ResNetTest, ProgramsShareTheirVariables) {
  ResNetConfig config = Of(50);
  config.batch = 4;
  config.image_size = 32;
  config.small_images = true;
  config.channels = 1;
  config.mean = {0.5};
  config.stddev = {0.25};
  Graph train, eval;
  ASSERT_TRUE(BuildResNetTrain(config, OptimizerOptions(), &train).ok());
  ASSERT_TRUE(BuildResNetEval(config, &eval).ok());
  for (const NodeId id : eval.variables()) {
    EXPECT_TRUE(train.FindVariable(eval.node(id).name)) << eval.node(id).name;
  }
  ASSERT_EQ(eval.outputs().size(), 3u);
  EXPECT_EQ(eval.outputs()[0].first, "loss");
  EXPECT_EQ(eval.outputs()[1].first, "accuracy");
  EXPECT_EQ(eval.outputs()[2].first, "top5");
}

std::string Error(const ResNetConfig& config, const std::string& mesh, int64_t micro_batches = 1) {
  return std::string(CheckResNet(config, *Mesh::Parse(mesh), micro_batches).message());
}

TEST(ResNetTest, WhatDoesNotFitIsNamed) {
  ResNetConfig config = Of(18);
  config.batch = 8;
  EXPECT_EQ(Error(config, "data=2 pipe=8"), "");
  EXPECT_EQ(Error(config, "pipe=9"),
            "mesh: expected at most one pipeline stage a residual block, 8, got pipe=9");
  config.groups = 2;
  EXPECT_EQ(
      Error(config, "data=4"),
      "groups: expected 1, or whole groups for each of 4 devices of axis data, got 2 of 2 for "
      "them, of which some would be cut");
  config.groups = 1;
  config.channels = 1;
  EXPECT_EQ(Error(config, "data=1"), "mean and stddev: expected 1 of each, got 3 and 3");
  config.channels = 3;
  config.depth = 19;
  EXPECT_EQ(Error(config, "data=1"), "depth: expected 18, 34, 50 or 101, got 19");
}

}  // namespace
}  // namespace sluice
