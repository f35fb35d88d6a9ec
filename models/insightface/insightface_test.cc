#include "models/insightface/insightface.h"

#include <string>
#include <utility>
#include <vector>

#include "framework/nn/model_size.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

FaceConfig Of(const std::string& network) {
  FaceConfig config;
  config.network = network;
  config.batch = 2;
  config.classes = 10;
  return config;
}

// Of faces of 112 x 112: what learns in InsightFace's backbones, all but the scale of their last
// norm, and MobileFaceNet's parameters as its paper counts them, 0.99 million with 128 features.
TEST(InsightFaceTest, SizesAreInsightFaces) {
  for (const auto& [network, parameters] : std::vector<std::pair<std::string, int64_t>>{
           {"ir18", 24025088}, {"ir50", 43590336}, {"ir100", 65155648}}) {
    const FaceConfig config = Of(network);
    Graph loss;
    const absl::Status built = BuildFaceLoss(config, &loss);
    ASSERT_TRUE(built.ok()) << built;
    EXPECT_EQ(SizeOfModel(loss).parameters - config.classes * config.embedding, parameters)
        << network;
  }
  FaceConfig mobile = Of("mobilefacenet");
  mobile.embedding = 128;
  Graph loss;
  ASSERT_TRUE(BuildFaceLoss(mobile, &loss).ok());
  EXPECT_NEAR(static_cast<double>(SizeOfModel(loss).parameters - 1280), 0.99e6, 0.02e6);
}

TEST(InsightFaceTest, ProgramsShareTheirVariables) {
  for (const std::string& network : FaceNetworks()) {
    FaceConfig config = Of(network);
    config.width = 8;
    config.image_size = 32;
    config.channels = 1;
    Graph train, embed;
    ASSERT_TRUE(BuildFaceTrain(config, OptimizerOptions(), &train).ok());
    ASSERT_TRUE(BuildFaceEmbed(config, &embed).ok());
    for (const NodeId id : embed.variables()) {
      EXPECT_TRUE(train.FindVariable(embed.node(id).name)) << embed.node(id).name;
    }
    EXPECT_FALSE(embed.FindVariable("classes/weight")) << "classes are of training alone";
    ASSERT_EQ(embed.outputs().size(), 1u);
    EXPECT_EQ(embed.outputs()[0].first, "embeddings");
  }
}

std::string Error(const FaceConfig& config, const std::string& mesh, int64_t micro_batches = 1) {
  return std::string(CheckFace(config, *Mesh::Parse(mesh), micro_batches).message());
}

TEST(InsightFaceTest, WhatDoesNotFitIsNamed) {
  FaceConfig config = Of("ir18");
  config.batch = 8;
  EXPECT_EQ(Error(config, "data=2 pipe=8"), "");
  EXPECT_EQ(Error(config, "pipe=9"),
            "mesh: expected at most one pipeline stage a residual block, 8, got pipe=9");
  config.groups = 2;
  EXPECT_EQ(Error(config, "data=2"), "");
  EXPECT_EQ(Error(config, "model=4"),
            "groups: expected 1, or whole groups for each of 4 devices of axis model, got 2 of 2 "
            "for them, of which some would be cut");
  config.classes = 1;
  EXPECT_EQ(Error(config, "data=1"), "classes: expected 2 to 1073741824, got 1");
  config = Of("ir18");
  config.sample_groups = 3;
  EXPECT_EQ(Error(config, "data=1"), "sample_groups: expected a divisor of the classes, 10, got 3");
  config.sample_groups = 2;
  EXPECT_EQ(Error(config, "model=2"), "");
  config.sample_groups = 5;
  EXPECT_EQ(Error(config, "model=2"),
            "sample_groups: expected a multiple of the 2 devices of axis model, which would cut "
            "some, got 5");
  config = Of("ir18");
  config.image_size = 40;
  EXPECT_EQ(Error(config, "data=1"), "image_size: expected a multiple of 16, got 40");
  config = Of("ir19");
  EXPECT_EQ(Error(config, "data=1"),
            "network: expected ir18, ir50, ir100, mobilefacenet, got ir19");
  config = Of("ir18");
  config.margin.angular = 2;
  EXPECT_EQ(Error(config, "data=1"), "margin: expected 0 to 1.5, got 2");
}

}  // namespace
}  // namespace sluice
