#include "models/insightface/options.h"

#include <string>
#include <vector>

#include "absl/flags/reflection.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/insightface/presets.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

class OptionsTest : public ::testing::Test {
 protected:
  absl::StatusOr<FaceOptions> Parse(const std::vector<std::string>& arguments) {
    absl::FlagSaver saver;
    bool help = false;
    absl::StatusOr<AppOptions> options = ParseAppOptions(
        FaceFlags(), arguments, {.now = "now", .datasets = "", .bundled = ""}, &help);
    if (!options.ok()) return options.status();
    app_ = *options;
    return ReadFaceFlags(app_);
  }
  std::string Error(const std::vector<std::string>& arguments) {
    return std::string(Parse(arguments).status().message());
  }
  AppOptions app_;
};

// Every field of a preset arrives through its flag, and fits together.
TEST_F(OptionsTest, PresetsAreWhatTheyAreByTheirFlags) {
  for (const FacePreset& preset : FacePresets()) {
    const auto options = Parse({"--preset=" + preset.name});
    ASSERT_TRUE(options.ok()) << options.status();
    const FaceConfig &got = options->config, &want = preset.config;
    EXPECT_EQ(got.network, want.network);
    EXPECT_EQ(got.width, want.width);
    EXPECT_EQ(got.embedding, want.embedding);
    EXPECT_EQ(got.classes, want.classes);
    EXPECT_EQ(got.image_size, want.image_size);
    EXPECT_EQ(got.channels, want.channels);
    EXPECT_EQ(got.batch, want.batch);
    EXPECT_EQ(got.groups, want.groups);
    EXPECT_EQ(got.margin.scale, want.margin.scale);
    EXPECT_EQ(got.margin.angular, want.margin.angular);
    EXPECT_EQ(got.margin.additive, want.margin.additive);
    EXPECT_EQ(got.sample_rate, want.sample_rate);
    EXPECT_EQ(got.sample_groups, want.sample_groups);
    EXPECT_EQ(got.dropout, want.dropout);
    EXPECT_EQ(options->data.synthetic, preset.synthetic);
    EXPECT_EQ(options->data.image_size, want.image_size);
    EXPECT_EQ(options->data.channels, want.channels);
    EXPECT_EQ(options->data.classes, want.classes);
    EXPECT_EQ(app_.schedule.steps, preset.steps);
    EXPECT_EQ(app_.schedule.warmup, preset.warmup);
    EXPECT_EQ(app_.schedule.peak, preset.lr);
    EXPECT_EQ(app_.optimizer.weight_decay, preset.weight_decay);
    EXPECT_EQ(app_.optimizer.kind, OptimizerOptions::kSgd);
    EXPECT_EQ(app_.optimizer.momentum, 0.9);
    EXPECT_EQ(app_.optimizer.clip, 5);
  }
}

TEST_F(OptionsTest, FlagsArrive) {
  const auto options = Parse({"--margin=0", "--additive_margin=0.4", "--dropout=0.2", "--groups=4",
                              "--sample_rate=0.25", "--sample_groups=53", "--augment=false",
                              "--seed=7", "--verification=lfw.bin", "--precision=bf16"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->config.margin.angular, 0);
  EXPECT_EQ(options->config.margin.additive, 0.4);
  EXPECT_EQ(options->config.dropout, 0.2);
  EXPECT_EQ(options->config.groups, 4);
  EXPECT_EQ(options->config.sample_rate, 0.25);
  EXPECT_EQ(options->config.sample_groups, 53);
  EXPECT_EQ(options->config.precision.compute, DType::kBF16);
  EXPECT_FALSE(options->data.augment);
  EXPECT_EQ(options->data.seed, 7u);
  EXPECT_EQ(options->data.verification, "lfw.bin");
}

TEST_F(OptionsTest, ErrorsAreOneLine) {
  EXPECT_EQ(Error({"--network=ir19"}),
            "model: network: expected ir18, ir50, ir100, mobilefacenet, got ir19");
  EXPECT_THAT(Error({"--groups=2", "--mesh=model=4"}), HasSubstr("of which some would be cut"));
  EXPECT_THAT(Error({"--groups=3"}), HasSubstr("groups: expected a divisor of the batch, 128"));
  EXPECT_THAT(Error({"--mesh=pipe=9"}), HasSubstr("at most one pipeline stage a residual block"));
  EXPECT_EQ(Error({"--classes=1"}), "model: classes: expected 2 to 1073741824, got 1");
  EXPECT_EQ(Error({"--sample_rate=0"}), "model: sample_rate: expected 1e-09 to 1, got 0");
  EXPECT_EQ(Error({"--sample_groups=2"}),
            "model: sample_groups: expected a divisor of the classes, 5353, got 2");
  EXPECT_EQ(Error({"--classes=4000", "--sample_rate=0.5", "--mesh=model=4", "--sample_groups=2"}),
            "model: sample_groups: expected a multiple of the 4 devices of axis model, which would "
            "cut some, got 2");
  EXPECT_EQ(
      Error({"--sample_rate=0.5", "--optimizer=lars"}),
      "--sample_rate: expected 1 with --optimizer=lars and lamb, which move every class, got 0.5");
  EXPECT_EQ(Error({"--widht=64"}), "unknown flag --widht; did you mean --width?");
}

}  // namespace
}  // namespace sluice
