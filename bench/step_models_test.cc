#include "bench/step_models.h"

#include <cstdint>

#include "framework/nn/model_size.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

ModelSize SizeOf(const absl::Status& built, const Graph& loss) {
  EXPECT_TRUE(built.ok()) << built;
  return built.ok() ? SizeOfModel(loss) : ModelSize();
}

// What the scripts in bench/peers count of their models.
TEST(StepModelsTest, PeersHaveAsManyParameters) {
  Graph bert, resnet, wide_and_deep, arcface;
  const absl::StatusOr<BertConfig> base = BertOfStep("base");
  ASSERT_TRUE(base.ok()) << base.status();
  EXPECT_EQ(SizeOf(BuildBertLoss(*base, &bert), bert).parameters, 109811516);
  EXPECT_EQ(SizeOf(BuildResNetLoss(ResNetOfStep(50), &resnet), resnet).parameters, 25557032);
  EXPECT_EQ(SizeOf(BuildWideAndDeepLoss(WideAndDeepOfStep(1000000), &wide_and_deep), wide_and_deep)
                .parameters,
            18096719);
  EXPECT_EQ(SizeOf(BuildArcFaceLoss(ArcFaceOfStep(100000), &arcface), arcface).parameters,
            51462656);
}

TEST(StepModelsTest, OperationsAreOfProductsAndConvolutions) {
  Graph resnet, arcface;
  const ModelSize of_resnet = SizeOf(BuildResNetLoss(ResNetOfStep(50), &resnet), resnet);
  EXPECT_EQ(of_resnet.flops - of_resnet.convolution_flops, int64_t{2} * 8 * 2048 * 1000);
  const ModelSize of_arcface = SizeOf(BuildArcFaceLoss(ArcFaceOfStep(100000), &arcface), arcface);
  EXPECT_EQ(of_arcface.flops, int64_t{2} * 128 * 512 * (512 + 100000));
  EXPECT_EQ(of_arcface.convolution_flops, 0);
}

TEST(StepModelsTest, ASizeThatThereIsNotIsNamed) {
  Graph graph;
  EXPECT_THAT(BuildNamedStep("alexnet", DType::kF32, &graph).ToString(),
              HasSubstr("bert_base, resnet50, wide_and_deep or arcface, got \"alexnet\""));
  EXPECT_THAT(BertOfStep("tiny").status().ToString(), HasSubstr("got \"tiny\""));
  EXPECT_THAT(BuildArcFaceLoss(ArcFaceOfStep(1), &graph).ToString(), HasSubstr("classes"));
}

}  // namespace
}  // namespace sluice
