#include "models/wide_and_deep/options.h"

#include <string>
#include <vector>

#include "absl/flags/reflection.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/wide_and_deep/presets.h"

namespace sluice {
namespace {

class OptionsTest : public ::testing::Test {
 protected:
  absl::StatusOr<WideAndDeepOptions> Parse(const std::vector<std::string>& arguments) {
    absl::FlagSaver saver;
    bool help = false;
    absl::StatusOr<AppOptions> options = ParseAppOptions(
        WideAndDeepFlags(), arguments, {.now = "now", .datasets = "", .bundled = ""}, &help);
    if (!options.ok()) return options.status();
    app_ = *options;
    return ReadWideAndDeepFlags(app_);
  }
  std::string Error(const std::vector<std::string>& arguments) {
    return std::string(Parse(arguments).status().message());
  }
  AppOptions app_;
};

// Every field of a preset arrives through its flag, to the last bit of its learning rate.
TEST_F(OptionsTest, PresetsAreWhatTheyAreByTheirFlags) {
  for (const WideAndDeepPreset& preset : WideAndDeepPresets()) {
    SCOPED_TRACE(preset.name);
    std::vector<std::string> arguments = {"--preset=" + preset.name};
    if (preset.name == "logs") {
      EXPECT_EQ(Error(arguments), "--data: expected a folder or a file, got none");
      continue;  // its tables follow from the file
    }
    const absl::StatusOr<WideAndDeepOptions> options = Parse(arguments);
    ASSERT_TRUE(options.ok()) << options.status();
    EXPECT_EQ(options->data.synthetic, preset.synthetic);
    EXPECT_EQ(options->data.split,
              preset.split == "forward" ? FlightSplit::kForward : FlightSplit::kRandom);
    const WideAndDeepConfig& config = options->config;
    std::vector<int64_t> widths;
    for (const EmbeddingTable& table : config.tables) widths.push_back(table.width);
    EXPECT_EQ(absl::StrJoin(widths, ","), preset.widths);
    EXPECT_EQ(absl::StrJoin(config.hidden, ","), preset.hidden);
    if (preset.synthetic) {
      EXPECT_EQ(config.wide.rows, preset.vocabulary);
      EXPECT_EQ(config.tables[0].rows, preset.vocabulary);
      EXPECT_EQ(config.tables[0].features, 26);
    }
    EXPECT_EQ(config.batch, preset.batch);
    EXPECT_EQ(config.dropout, preset.dropout);
    EXPECT_EQ(app_.schedule.steps, preset.steps);
    EXPECT_EQ(app_.schedule.warmup, preset.warmup);
    EXPECT_EQ(app_.schedule.peak, preset.lr);
    ASSERT_EQ(options->optimizer.groups.size(), 1u);
    EXPECT_EQ(options->optimizer.groups[0].kind, OptimizerOptions::kFtrl);
    EXPECT_NEAR(options->optimizer.groups[0].rate * preset.lr, preset.wide_lr, 1e-12);
    EXPECT_EQ(options->optimizer.weight_decay, preset.weight_decay);
  }
}

TEST_F(OptionsTest, FlagsGoOverThePreset) {
  const absl::StatusOr<WideAndDeepOptions> options =
      Parse({"--widths=3,5", "--hidden=9", "--split=forward", "--split_columns", "--l1=0.5",
             "--l2=2", "--optimizer=adagrad", "--mesh=model=2", "--lr=0.5", "--wide_lr=1"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->config.tables[1].width, 5);
  EXPECT_EQ(options->config.hidden, std::vector<int64_t>{9});
  EXPECT_TRUE(options->config.split_columns);
  EXPECT_FALSE(options->config.tables_apart);
  EXPECT_EQ(options->data.split, FlightSplit::kForward);
  EXPECT_EQ(options->optimizer.kind, OptimizerOptions::kAdagrad);
  EXPECT_EQ(options->optimizer.l1, 0.5);
  EXPECT_EQ(options->optimizer.l2, 2);
  EXPECT_EQ(options->optimizer.groups[0].rate, 2);
}

TEST_F(OptionsTest, TablesMayBeApart) {
  const absl::StatusOr<WideAndDeepOptions> options =
      Parse({"--tables_apart", "--mesh=pipe=2 @cpu,cuda"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_TRUE(options->config.tables_apart);
}

TEST_F(OptionsTest, ErrorsAreOneLine) {
  EXPECT_EQ(Error({"--preset=huge"}),
            "--preset: expected one of flights, forward, logs, synthetic, got \"huge\"");
  EXPECT_EQ(Error({"--widths=8"}), "--widths: expected 2, one a table, got 1");
  EXPECT_EQ(Error({"--hidden=8,x"}), "--hidden: expected numbers between commas, got \"8,x\"");
  EXPECT_EQ(Error({"--hidden=8,0"}), "model: hidden: expected 1 to 1048576, got 0");
  EXPECT_EQ(Error({"--split=week"}), "--split: expected random or forward, got \"week\"");
  EXPECT_EQ(Error({"--mesh=pipe=3"}),
            "model: mesh: expected at most one pipeline stage a hidden layer, 2, got pipe=3");
  EXPECT_EQ(Error({"--tables_apart"}),
            "model: mesh: expected two pipeline stages for tables apart, got pipe=1");
  EXPECT_EQ(Error({"--preset=synthetic", "--vocabulary=51"}),
            "--vocabulary: expected 52 to 1.07374e+09, got 51");
  EXPECT_EQ(Error({"--optimizer=ftrl"}),
            "--optimizer: expected adamw, lamb, sgd, lars or adagrad, got \"ftrl\"");
  EXPECT_EQ(Error({"--lr=0"}), "--wide_lr: expected 0 where --lr is 0, as it rises with it");
}

}  // namespace
}  // namespace sluice
