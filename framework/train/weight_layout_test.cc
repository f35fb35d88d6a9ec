// A model of two matrices side by side that lie transposed elsewhere, and of a statistic. What
// befalls the folders is tested by //models/gpt:export_test.
#include "framework/train/weight_layout.h"

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

HostTensor Of(const Shape& shape, std::initializer_list<float> values) {
  HostTensor tensor(DType::kF32, shape);
  std::copy(values.begin(), values.end(), tensor.data<float>());
  return tensor;
}

std::vector<float> Values(const absl::StatusOr<HostTensor>& tensor) {
  EXPECT_TRUE(tensor.ok()) << tensor.status();
  if (!tensor.ok()) return {};
  return {tensor->data<float>(), tensor->data<float>() + tensor->shape.NumElements()};
}

struct Named {
  std::string name;
  HostTensor value;
};

class WeightLayoutTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "/" +
              ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    layout_ = {"the other one",
               {PairWeights("fused.weight", {"left", "right"}, {2, 1, 3}, {2, 0, 1}),
                PairWeights("mean", {"running"}, {2})},
               {".m", ".v"}};
    layout_.pairs[1].trained = false;
  }
  // Of tensors of theirs, in this order.
  absl::StatusOr<ImportedWeights> Import(const std::vector<Named>& tensors) {
    const std::string path = folder_ + "/model.safetensors";
    std::vector<TensorEntry> entries;
    for (const Named& t : tensors) entries.push_back({t.name, t.value.dtype, t.value.shape});
    size_t next = 0;
    const absl::Status written = WriteSafetensors(
        path, entries, {},
        [&](const TensorEntry&) -> absl::StatusOr<HostTensor> { return tensors[next++].value; });
    EXPECT_EQ(written, absl::OkStatus());
    const auto file = SafetensorsReader::Open(path);
    if (!file.ok()) return file.status();
    return ImportWeights(
        *file, layout_, [](const std::string& name) { return name == "counter"; }, {{"width", "3"}},
        folder_ + "/checkpoints");
  }
  std::string ImportError(const std::vector<Named>& tensors) {
    return std::string(Import(tensors).status().message());
  }
  WeightLayout layout_;
  std::string folder_;
};

const Named kFused = {"fused.weight", Of({6, 2, 1}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11})};
const Named kMean = {"mean", Of({2}, {12, 13})};
const Named kCounter = {"counter", Of({1}, {14})};

TEST_F(WeightLayoutTest, TheirsAreOursSideBySideWithTheirAxesInAnotherOrder) {
  EXPECT_EQ(layout_.pairs[0].theirs.shape, (Shape{6, 2, 1}));
  const auto imported = Import({kMean, kCounter, kFused});
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ(imported->widened, 0);
  const auto checkpoint = Checkpoint::Load(imported->checkpoint);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ(checkpoint->meta().options.at("width"), "3");
  EXPECT_THAT(Values(checkpoint->Read("left")), ElementsAre(0, 2, 4, 1, 3, 5));
  EXPECT_THAT(Values(checkpoint->Read("right")), ElementsAre(6, 8, 10, 7, 9, 11));
  EXPECT_THAT(Values(checkpoint->Read("running")), ElementsAre(12, 13));
  EXPECT_THAT(Values(checkpoint->Read("right.v")), ElementsAre(0, 0, 0, 0, 0, 0));
  EXPECT_EQ(checkpoint->tensors().size(), 7u);  // a statistic has no state
  const absl::Status exported =
      ExportWeights(*checkpoint, layout_, {{"notes.txt", "of theirs"}}, folder_ + "/out");
  ASSERT_EQ(exported, absl::OkStatus());
  EXPECT_EQ(*ReadText(folder_ + "/out/notes.txt", 100), "of theirs");
  const auto file = SafetensorsReader::Open(folder_ + "/out/model.safetensors");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->metadata().at("format"), "pt");
  EXPECT_EQ(file->Read("fused.weight")->bytes, kFused.value.bytes);
  EXPECT_EQ(file->Read("mean")->bytes, kMean.value.bytes);
  EXPECT_EQ(file->stored().size(), 2u);
}

// Whatever optimizer trained the model: its state is named after what it is of.
TEST_F(WeightLayoutTest, StateOfAnyOptimizerStaysBehind) {
  layout_.states = {".sum", ".z", ".n", ".momentum"};
  const auto imported = Import({kMean, kFused});
  ASSERT_TRUE(imported.ok()) << imported.status();
  const auto checkpoint = Checkpoint::Load(imported->checkpoint);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  ASSERT_TRUE(checkpoint->Read("right.sum").ok());
  EXPECT_EQ(ExportWeights(*checkpoint, layout_, {}, folder_ + "/out"), absl::OkStatus());
  const auto file = SafetensorsReader::Open(folder_ + "/out/model.safetensors");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->stored().size(), 2u);
}

TEST_F(WeightLayoutTest, WhatIsMissingUnknownOrOfAnotherTypeIsNamed) {
  EXPECT_THAT(ImportError({kMean}), HasSubstr("safetensors: expected a tensor fused.weight"));
  EXPECT_THAT(ImportError({kMean, kFused, {"extra", Of({1}, {0})}}),
              HasSubstr("safetensors: extra is not the other one's"));
  EXPECT_THAT(ImportError({kFused, {"mean", Of({1, 2}, {0, 0})}}),
              HasSubstr("mean: expected F32, F16 or BF16 [2], got F32 [1,2]"));
  EXPECT_THAT(ImportError({kFused, {"mean", HostTensor(DType::kI32, {2})}}),
              HasSubstr("mean: expected F32, F16 or BF16 [2], got I32 [2]"));
  EXPECT_FALSE(fs::exists(folder_ + "/checkpoints"));
  const auto imported = Import({kMean, kFused});
  ASSERT_TRUE(imported.ok()) << imported.status();
  const auto checkpoint = Checkpoint::Load(imported->checkpoint);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  const auto error = [&](const WeightLayout& layout) {
    return std::string(ExportWeights(*checkpoint, layout, {}, folder_ + "/out").message());
  };
  WeightLayout other = layout_;
  other.pairs.pop_back();
  EXPECT_THAT(error(other), HasSubstr("step-000000: running has no place in the other one"));
  other.pairs.push_back(PairWeights("mean", {"mean"}, {2}));
  EXPECT_THAT(error(other), HasSubstr("step-000000: expected a tensor mean"));
  other.pairs.back() = PairWeights("mean", {"running"}, {3});
  EXPECT_THAT(error(other), HasSubstr("step-000000: running: expected f32[3], got f32[2]"));
  EXPECT_FALSE(fs::exists(folder_ + "/out"));
}

}  // namespace
}  // namespace sluice
