#include "models/bert/options.h"

#include <filesystem>
#include <string>
#include <vector>

#include "absl/flags/reflection.h"
#include "framework/checkpoint/checkpoint.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/bert/presets.h"

namespace sluice {
namespace {

class OptionsTest : public ::testing::Test {
 protected:
  absl::StatusOr<BertOptions> Parse(const std::vector<std::string>& arguments) {
    absl::FlagSaver saver;
    bool help = false;
    absl::StatusOr<AppOptions> options = ParseAppOptions(
        BertFlags(), arguments, {.now = "now", .datasets = "", .bundled = ""}, &help);
    if (!options.ok()) return options.status();
    app_ = *options;
    return ReadBertFlags(app_);
  }
  std::string Error(const std::vector<std::string>& arguments) {
    return std::string(Parse(arguments).status().message());
  }
  // Whose tensors nobody reads here.
  static std::string WriteCheckpoint(const std::string& run, int64_t step) {
    std::filesystem::create_directories(run + "/checkpoints");
    CheckpointMeta meta;
    meta.step = step;
    return *SaveCheckpoint(run + "/checkpoints", meta, {{"w", DType::kF32, {}}},
                           [](const TensorEntry&) { return HostTensor(DType::kF32, {}); });
  }
  AppOptions app_;
};

// Every field of a preset arrives through its flag, to the last bit of its learning rate.
TEST_F(OptionsTest, PresetsAreWhatTheyAreByTheirFlags) {
  for (const BertPreset& preset : BertPresets()) {
    SCOPED_TRACE(preset.name);
    const absl::StatusOr<BertOptions> options =
        Parse({"--preset=" + preset.name, "--data=some/text"});
    ASSERT_TRUE(options.ok()) << options.status();
    const BertConfig &got = options->config, &want = preset.config;
    EXPECT_EQ(got.layers, want.layers);
    EXPECT_EQ(got.heads, want.heads);
    EXPECT_EQ(got.hidden, want.hidden);
    EXPECT_EQ(got.sequence_length, want.sequence_length);
    EXPECT_EQ(got.vocabulary, want.vocabulary);
    EXPECT_EQ(got.predictions, want.predictions);
    EXPECT_EQ(options->task, preset.task);
    EXPECT_EQ(got.classes, preset.task == BertTask::kClassify ? want.classes : 0);
    EXPECT_EQ(options->later_classes, preset.task == BertTask::kBoth ? want.classes : 0);
    EXPECT_EQ(got.batch, want.batch);
    EXPECT_EQ(got.dropout, want.dropout);
    EXPECT_FALSE(got.tanh_gelu);
    EXPECT_EQ(app_.schedule.steps, preset.steps);
    EXPECT_EQ(app_.schedule.warmup, preset.warmup);
    EXPECT_EQ(app_.schedule.peak, preset.lr);
  }
}

TEST_F(OptionsTest, FlagsGoOverThePreset) {
  const std::string init = WriteCheckpoint(::testing::TempDir() + "/run", 1);
  const absl::StatusOr<BertOptions> options =
      Parse({"--hidden=64", "--tanh_gelu", "--mesh=data=2 pipe=3", "--micro_batches=4",
             "--data=some/text", "--vocabulary_file=v.txt", "--init=" + init});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->config.hidden, 64);
  EXPECT_TRUE(options->config.tanh_gelu);
  EXPECT_EQ(options->vocabulary_file, "v.txt");
  EXPECT_EQ(app_.init, init);
  EXPECT_EQ(app_.stages, 3);
  for (const auto& [name, value] : app_.recorded) {
    EXPECT_NE(name, "vocabulary_file");
  }
}

// The second run is as the first but for what a preset knows, and goes on where it has begun.
TEST_F(OptionsTest, ClassesAreLearnedAsWordsWere) {
  const std::string run = ::testing::TempDir() + "/words";
  WriteCheckpoint(run, 30);
  const auto options =
      Parse({"--data=some/text", "--mesh=data=2 pipe=3", "--hidden=64", "--seed=7", "--steps=30",
             "--keep_best=masked_loss", "--init=" + run + "/checkpoints/step-000030"});
  ASSERT_TRUE(options.ok()) << options.status();
  const std::vector<std::string> arguments = ClassifyingRun(app_, run, 30);
  const auto second = Parse(arguments);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->task, BertTask::kClassify);
  EXPECT_EQ(second->config.classes, 8);
  EXPECT_EQ(second->config.hidden, 64);
  EXPECT_EQ(app_.stages, 3);
  EXPECT_EQ(app_.session.seed, 7u);
  EXPECT_EQ(app_.schedule.steps, 1200);
  EXPECT_EQ(app_.keep_best, "") << "classes have no masked words";
  EXPECT_EQ(app_.init, run + "/checkpoints/step-000030");
  EXPECT_EQ(app_.out, run + "/classify");
}

TEST_F(OptionsTest, ErrorsAreOneLine) {
  EXPECT_EQ(Error({"--preset=huge"}),
            "--preset: expected one of default, small, classify, base, large, got \"huge\"");
  EXPECT_EQ(Error({"--data=x", "--heads=7"}),
            "model: heads: expected a divisor of hidden, 128, got 7");
  EXPECT_EQ(Error({"--data=x", "--mesh=pipe=4"}),
            "model: mesh: expected at most one pipeline stage a layer, 3, got pipe=4");
}

}  // namespace
}  // namespace sluice
