#include "bench/gpu_models.h"

#include "framework/graph/graph.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

// Of the large forms: what the scripts in bench/peers count of theirs (ci/gpu compares them, too).
TEST(GpuModelsTest, GptsAreOpenAisSizes) {
  const auto parameters = [](const char* name) {
    return *GpuModelOf(name, DType::kBF16, /*small=*/false)->parameters();
  };
  // 124,439,808 and 354,823,168 of a vocabulary of 50,257, padded to 50,304.
  EXPECT_EQ(parameters("gpt2_124m"), 124439808 + 47 * 768);
  EXPECT_EQ(parameters("gpt2_350m"), 354823168 + 47 * 1024);
}

// What the program "train" is fed by each of its inputs' names and types.
TEST(GpuModelsTest, FeedsAreThoseOfTheGraph) {
  for (const std::string& name : GpuModelNames()) {
    const absl::StatusOr<GpuModel> model = GpuModelOf(name, DType::kF32, /*small=*/true);
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_EQ(model->name, name);
    const absl::StatusOr<StepFeeds> feeds = model->feeds();
    ASSERT_TRUE(feeds.ok()) << feeds.status();
    EXPECT_GT((*feeds)(1).size(), 3u) << name;
    Graph graph;
    EXPECT_TRUE(model->build(&graph).ok()) << name;
    EXPECT_LT(*model->parameters(), 1000000) << name;
  }
}

TEST(GpuModelsTest, ANameThatThereIsNotIsNamed) {
  EXPECT_THAT(GpuModelOf("alexnet", DType::kF32, false).status().ToString(),
              HasSubstr("expected gpt_tiny, gpt2_124m, gpt2_350m, bert_base, resnet50, arcface, "
                        "wide_and_deep, got \"alexnet\""));
}

}  // namespace
}  // namespace sluice
