// A model of two matrices side by side that lie transposed elsewhere, and of a statistic. What
// befalls the folders is tested by //models/gpt:export_test.
#include "framework/train/weight_layout.h"

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

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
    const auto files = WeightFiles::Open(path);
    if (!files.ok()) return files.status();
    return ImportWeights(*files, layout_, [](const std::string& name) { return name == "counter"; },
                         {folder_ + "/run/checkpoints", {{"width", "3"}}, files_});
  }
  std::string ImportError(const std::vector<Named>& tensors) {
    return std::string(Import(tensors).status().message());
  }
  WeightLayout layout_;
  RunFiles files_;
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
  const auto exported =
      ExportWeights(*checkpoint, layout_, {{"notes.txt", "of theirs"}}, folder_ + "/out");
  ASSERT_TRUE(exported.ok()) << exported.status();
  EXPECT_THAT(*exported, ElementsAre("model.safetensors", "notes.txt"));
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
  EXPECT_EQ(ExportWeights(*checkpoint, layout_, {}, folder_ + "/out").status(), absl::OkStatus());
  const auto file = SafetensorsReader::Open(folder_ + "/out/model.safetensors");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->stored().size(), 2u);
}

TEST_F(WeightLayoutTest, WhatIsMissingUnknownOrOfAnotherTypeIsNamed) {
  EXPECT_THAT(ImportError({kMean}),
              HasSubstr("safetensors: expected a tensor fused.weight, got 1 others such as mean"));
  EXPECT_THAT(ImportError({kMean, kFused, {"extra", Of({1}, {0})}}),
              HasSubstr("safetensors: extra is not the other one's"));
  EXPECT_THAT(ImportError({kFused, {"mean", Of({1, 2}, {0, 0})}}),
              HasSubstr("mean: expected F32, F16 or BF16 [2], got F32 [1,2]"));
  EXPECT_THAT(ImportError({kFused, {"mean", HostTensor(DType::kI32, {2})}}),
              HasSubstr("mean: expected F32, F16 or BF16 [2], got I32 [2]"));
  EXPECT_FALSE(fs::exists(folder_ + "/run"));
  const auto imported = Import({kMean, kFused});
  ASSERT_TRUE(imported.ok()) << imported.status();
  const auto checkpoint = Checkpoint::Load(imported->checkpoint);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  const auto error = [&](const WeightLayout& layout) {
    return std::string(ExportWeights(*checkpoint, layout, {}, folder_ + "/out").status().message());
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

TEST_F(WeightLayoutTest, WhatIsNotFiniteIsRefusedByItsPlace) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::string at = folder_ + "/model.safetensors: ";
  EXPECT_EQ(ImportError({kFused, {"mean", Of({2}, {12, kNan})}}),
            at +
                "mean: expected finite numbers, got nan at [1], the first of 1 of 2 that are none; "
                "take a checkpoint from before the training went wrong");
  Named fused = kFused;
  fused.value.data<float>()[7] = -kInfinity;
  fused.value.data<float>()[10] = kNan;
  EXPECT_THAT(
      ImportError({kMean, fused}),
      HasSubstr("fused.weight: expected finite numbers, got -inf at [3,1,0], the first of 2 "
                "of 12 that are none"));
  // An infinity in BF16 is one as well.
  HostTensor narrow(DType::kBF16, {2});
  narrow.data<uint16_t>()[0] = 0x7f80;
  EXPECT_THAT(ImportError({kFused, {"mean", narrow}}), HasSubstr("got inf at [0]"));
  // Nothing is left of it, and what may be left out may be anything.
  EXPECT_THAT(*ListDirectory(folder_ + "/run/checkpoints"), ElementsAre());
  EXPECT_EQ(Import({kMean, kFused, {"counter", Of({1}, {kNan})}}).status(), absl::OkStatus());
}

TEST_F(WeightLayoutTest, AModelThatIsTooLargeForOneFileIsWrittenInShards) {
  const auto imported = Import({kMean, kFused});
  ASSERT_TRUE(imported.ok()) << imported.status();
  const auto checkpoint = Checkpoint::Load(imported->checkpoint);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  const std::string out = folder_ + "/out", one = "model-00001-of-00002.safetensors",
                    two = "model-00002-of-00002.safetensors";
  const auto exported =
      ExportWeights(*checkpoint, layout_, {{"notes.txt", ""}}, out, {.most_shard_bytes = 55});
  ASSERT_TRUE(exported.ok()) << exported.status();
  EXPECT_THAT(*exported, ElementsAre(one, two, "model.safetensors.index.json", "notes.txt"));
  EXPECT_EQ(SafetensorsReader::Open(absl::StrCat(out, "/", one))->Read("fused.weight")->bytes,
            kFused.value.bytes);
  EXPECT_EQ(SafetensorsReader::Open(absl::StrCat(out, "/", two))->Read("mean")->bytes,
            kMean.value.bytes);
  const auto index =
      ParseShardIndex(*ReadText(out + "/model.safetensors.index.json", 1000), "index");
  ASSERT_TRUE(index.ok()) << index.status();
  EXPECT_THAT(*index, ElementsAre(Pair("fused.weight", one), Pair("mean", two)));
  EXPECT_THAT(*ReadText(out + "/model.safetensors.index.json", 1000),
              HasSubstr("\"total_size\": 56\n"));
  // There and back is bitwise, and an older export may have had other shards.
  const auto files = WeightFiles::Open(out);
  ASSERT_TRUE(files.ok()) << files.status();
  const auto again = ImportWeights(*files, layout_, [](const std::string&) { return false; },
                                   {folder_ + "/again", {}});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*ReadText(again->checkpoint + "/tensors.safetensors", 10000),
            *ReadText(imported->checkpoint + "/tensors.safetensors", 10000));
  EXPECT_THAT(*ExportWeights(*checkpoint, layout_, {{"notes.txt", ""}}, out),
              ElementsAre("model.safetensors", "notes.txt"));
  EXPECT_THAT(*ListDirectory(out), ElementsAre("model.safetensors", "notes.txt"));
}

// A run's vocabulary is that of its checkpoint, or there is none.
TEST_F(WeightLayoutTest, FilesOfAnOlderImportDoNotOutliveIt) {
  const std::string run = folder_ + "/run";
  files_ = {{"vocab.txt", "older"}, {"config", "older"}};
  ASSERT_EQ(Import({kMean, kFused}).status(), absl::OkStatus());
  EXPECT_EQ(*ReadText(run + "/vocab.txt", 100), "older");
  // Where an import fails, the older one is as it was.
  files_ = {{"vocab.txt", "newer"}, {"config", std::nullopt}};
  EXPECT_FALSE(
      Import({kFused, {"mean", Of({2}, {0, std::numeric_limits<float>::infinity()})}}).ok());
  EXPECT_EQ(*ReadText(run + "/vocab.txt", 100), "older");
  EXPECT_EQ(*ReadText(run + "/config", 100), "older");
  ASSERT_EQ(Import({kMean, kFused}).status(), absl::OkStatus());
  EXPECT_EQ(*ReadText(run + "/vocab.txt", 100), "newer");
  EXPECT_THAT(*ListDirectory(run), ElementsAre("checkpoints", "vocab.txt"));
  // Two imports that are in no folder "checkpoints" do not share their files.
  const auto files = WeightFiles::Open(folder_ + "/model.safetensors");
  for (const std::string name : {"a", "b"}) {
    const auto imported =
        ImportWeights(*files, layout_, [](const std::string&) { return false; },
                      {absl::StrCat(folder_, "/", name), {}, {{"vocab.txt", name}}});
    ASSERT_TRUE(imported.ok()) << imported.status();
  }
  EXPECT_EQ(*ReadText(folder_ + "/a/vocab.txt", 100), "a");
  EXPECT_EQ(*ReadText(folder_ + "/b/vocab.txt", 100), "b");
}

}  // namespace
}  // namespace sluice
