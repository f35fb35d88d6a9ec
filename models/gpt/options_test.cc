#include "models/gpt/options.h"

#include <filesystem>
#include <set>

#include "absl/flags/reflection.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/gpt/presets.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

class OptionsTest : public ::testing::Test {
 protected:
  absl::StatusOr<GptOptions> Parse(const std::vector<std::string>& arguments) {
    absl::FlagSaver saver;
    bool help = false;
    absl::StatusOr<AppOptions> options = ParseAppOptions(
        GptFlags(), arguments, {.now = "now", .datasets = "", .bundled = ""}, &help);
    if (!options.ok()) return options.status();
    app_ = *options;
    return ReadGptFlags(app_);
  }
  std::string Error(const std::vector<std::string>& arguments) {
    return std::string(Parse(arguments).status().message());
  }
  AppOptions app_;
};

TEST_F(OptionsTest, DefaultsAreTheMainJob) {
  absl::StatusOr<GptOptions> options = Parse({});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(app_.session.mesh, "data=2");
  EXPECT_EQ(app_.devices, 2);
  EXPECT_EQ(app_.out, "runs/now");
  EXPECT_EQ(app_.schedule.steps, GptPresets()[0].steps);
  EXPECT_EQ(app_.optimizer.weight_decay, 0.1);
  EXPECT_EQ(options->config.hidden, GptPresets()[0].config.hidden);
  EXPECT_EQ(options->prompt, std::vector<int32_t>{'\n'});
}

// Every field of a preset arrives through its flag, to the last bit of its learning rate.
TEST_F(OptionsTest, PresetsAreWhatTheyAreByTheirFlags) {
  for (const GptPreset& preset : GptPresets()) {
    absl::StatusOr<GptOptions> options = Parse({"--preset=" + preset.name});
    ASSERT_TRUE(options.ok()) << options.status();
    const GptConfig &got = options->config, &want = preset.config;
    EXPECT_EQ(got.layers, want.layers);
    EXPECT_EQ(got.heads, want.heads);
    EXPECT_EQ(got.hidden, want.hidden);
    EXPECT_EQ(got.sequence_length, want.sequence_length);
    EXPECT_EQ(got.batch, want.batch);
    EXPECT_EQ(got.dropout, want.dropout);
    EXPECT_EQ(app_.schedule.steps, preset.steps);
    EXPECT_EQ(app_.schedule.warmup, preset.warmup);
    EXPECT_EQ(app_.schedule.peak, preset.lr);
  }
}

TEST_F(OptionsTest, FlagsGoOverThePreset) {
  absl::StatusOr<GptOptions> options =
      Parse({"--preset=tiny", "--hidden=64", "--lr=0.5", "--mesh=data=2 pipe=2",
             "--micro_batches=4", "--data=some/text", "--seed=7"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->config.hidden, 64);
  EXPECT_EQ(options->config.layers, 4);
  EXPECT_EQ(options->sample.seed, 7);
  EXPECT_EQ(app_.schedule.peak, 0.5);
  EXPECT_EQ(app_.schedule.warmup, 20);
  EXPECT_EQ(app_.stages, 2);
  EXPECT_EQ(app_.session.micro_batches, 4);
  EXPECT_EQ(app_.data, std::filesystem::absolute("some/text").string());
}

TEST_F(OptionsTest, ErrorsAreOneLine) {
  EXPECT_EQ(Error({"--hiden=3"}), "unknown flag --hiden; did you mean --hidden?");
  EXPECT_EQ(Error({"--preset=huge"}),
            "--preset: expected one of default, tiny, gpt_small, got \"huge\"");
  EXPECT_EQ(Error({"--heads=7"}), "model: heads: expected a divisor of hidden, 192, got 7");
  EXPECT_THAT(Error({"--mesh=pipe=100"}), HasSubstr("got pipe=100"));
  EXPECT_EQ(Error({"--sample"}), "--sample: expected --resume=RUN, the run to do it with");
  EXPECT_EQ(Error({"--prompt="}), "--prompt: expected at least one byte, got none");
  EXPECT_EQ(Error({"--temperature=-1"}), "--temperature: expected 0 to 100, got -1");
  EXPECT_EQ(Error({"--attention_dropout=1"}),
            "model: attention_dropout: expected 0 to 0.99, got 1");
  EXPECT_EQ(Error({"--attention_draws=mine"}),
            "--attention_draws: expected ours or library, got \"mine\"");
  EXPECT_EQ(Error({"--attention_draws=library"}),
            "--attention_draws=library: expected --precision=bf16, got f32");
}

TEST_F(OptionsTest, HelpNamesEveryFlagOnce) {
  const std::string text = AppHelp(GptFlags());
  for (const char* flag :
       {"data",          "preset",  "layers",    "hidden",        "heads",      "sequence_length",
        "batch",         "dropout", "lr",        "steps",         "seed",       "clip",
        "weight_decay",  "warmup",  "mesh",      "micro_batches", "eval_every", "save_every",
        "keep",          "out",     "resume",    "sample",        "prompt",     "explain",
        "script_length", "trace",   "check_nan", "explain_html",  "threads",    "memory",
        "zero"}) {
    EXPECT_THAT(text, ::testing::ContainsRegex(std::string("\n  --") + flag + "[= \n]"));
  }
  EXPECT_THAT(text, HasSubstr("text to learn from"));
  for (size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos;
       begin = end + 1) {
    EXPECT_LE(end - begin, 100u) << text.substr(begin, end - begin);
  }
}

}  // namespace
}  // namespace sluice
