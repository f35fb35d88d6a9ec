#include "models/resnet/options.h"

#include <string>
#include <vector>

#include "absl/flags/reflection.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/resnet/presets.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

class OptionsTest : public ::testing::Test {
 protected:
  absl::StatusOr<ResNetOptions> Parse(const std::vector<std::string>& arguments) {
    absl::FlagSaver saver;
    bool help = false;
    absl::StatusOr<AppOptions> options = ParseAppOptions(
        ResNetFlags(), arguments, {.now = "now", .datasets = "", .bundled = ""}, &help);
    if (!options.ok()) return options.status();
    app_ = *options;
    return ReadResNetFlags(app_);
  }
  std::string Error(const std::vector<std::string>& arguments) {
    return std::string(Parse(arguments).status().message());
  }
  AppOptions app_;
};

// Every field of a preset arrives through its flag, and fits together.
TEST_F(OptionsTest, PresetsAreWhatTheyAreByTheirFlags) {
  for (const ResNetPreset& preset : ResNetPresets()) {
    const auto options = Parse({"--preset=" + preset.name});
    ASSERT_TRUE(options.ok()) << options.status();
    const ResNetConfig &got = options->config, &want = preset.config;
    EXPECT_EQ(got.depth, want.depth);
    EXPECT_EQ(got.width, want.width);
    EXPECT_EQ(got.classes, want.classes);
    EXPECT_EQ(got.image_size, want.image_size);
    EXPECT_EQ(got.channels, want.channels);
    EXPECT_EQ(got.small_images, want.small_images);
    EXPECT_EQ(got.batch, want.batch);
    EXPECT_EQ(static_cast<int64_t>(got.mean.size()), want.channels);
    EXPECT_EQ(options->pictures.synthetic, preset.synthetic);
    EXPECT_EQ(options->pictures.image_size, want.image_size);
    EXPECT_EQ(app_.schedule.steps, preset.steps);
    EXPECT_EQ(app_.schedule.warmup, preset.warmup);
    EXPECT_EQ(app_.schedule.peak, preset.lr);
    EXPECT_EQ(app_.optimizer.weight_decay, preset.weight_decay);
    EXPECT_EQ(app_.optimizer.kind, OptimizerOptions::kSgd);
    EXPECT_TRUE(app_.optimizer.nesterov);
    EXPECT_EQ(app_.optimizer.clip, 0);
    EXPECT_THAT(app_.data, ::testing::EndsWith(preset.data));
  }
}

TEST_F(OptionsTest, ErrorsAreOneLine) {
  EXPECT_EQ(Error({"--depth=20"}), "model: depth: expected 18, 34, 50 or 101, got 20");
  EXPECT_THAT(Error({"--groups=2", "--mesh=data=4"}), HasSubstr("of which some would be cut"));
  EXPECT_THAT(Error({"--groups=3"}), HasSubstr("groups: expected a divisor of the batch, 100"));
  EXPECT_THAT(Error({"--mesh=pipe=9"}), HasSubstr("at most one pipeline stage a residual block"));
  EXPECT_THAT(Error({"--classes=1"}), HasSubstr("model: classes: expected 2 to "));
  EXPECT_EQ(Error({"--widht=64"}), "unknown flag --widht; did you mean --width?");
}

}  // namespace
}  // namespace sluice
