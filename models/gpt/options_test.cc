#include "models/gpt/options.h"

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "absl/flags/reflection.h"
#include "framework/checkpoint/checkpoint.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

class OptionsTest : public ::testing::Test {
 protected:
  absl::StatusOr<TrainOptions> Parse(const std::vector<std::string>& arguments) {
    absl::FlagSaver saver;
    return ParseTrainOptions(arguments, "now", &help_);
  }
  std::string Error(const std::vector<std::string>& arguments) {
    return std::string(Parse(arguments).status().message());
  }
  // A checkpoint of a run with these options.
  std::string Save(const TrainOptions& options, const std::string& run, int64_t step) {
    std::filesystem::create_directories(run + "/checkpoints");
    CheckpointMeta meta;
    meta.step = step;
    meta.options = {options.resolved.begin(), options.resolved.end()};
    return *SaveCheckpoint(run + "/checkpoints", meta, {{"w", DType::kF32, {}}},
                           [](const TensorEntry&) { return HostTensor(DType::kF32, {}); });
  }
  std::string Folder(const char* name) {
    const std::string path =
        std::filesystem::path(::testing::TempDir() + "/" + name).lexically_normal();
    std::filesystem::remove_all(path);
    return path;
  }
  bool help_ = false;
};

TEST_F(OptionsTest, DefaultsAreTheMainJob) {
  absl::StatusOr<TrainOptions> options = Parse({});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->session.mesh, "data=2");
  EXPECT_EQ(options->devices, 2);
  EXPECT_EQ(options->out, "runs/now");
  EXPECT_EQ(options->config.hidden, GptPresets()[0].config.hidden);
  EXPECT_EQ(options->schedule.steps, GptPresets()[0].steps);
  EXPECT_EQ(options->optimizer.weight_decay, 0.1);
}

TEST_F(OptionsTest, AMachineIsReadFromItsFile) {
  const std::string path = ::testing::TempDir() + "/machine.txt";
  std::ofstream(path) << "cores=2 launch_nanoseconds=77\nkernel.gelu.1=8,16:100,200\n";
  absl::StatusOr<TrainOptions> options = Parse({"--machine=" + path});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->session.machine.launch_nanoseconds, 77);
  EXPECT_TRUE(options->session.machine.HasKernel("gelu"));
  EXPECT_THAT(Error({"--machine=" + path + "x"}),
              HasSubstr("--machine: " + path + "x: cannot open: No such file"));
  std::ofstream(path) << "cores=many";
  EXPECT_THAT(Error({"--machine=" + path}), HasSubstr("expected a positive number after cores"));
}

TEST_F(OptionsTest, FlagsGoOverThePreset) {
  absl::StatusOr<TrainOptions> options =
      Parse({"--preset=tiny", "--hidden=64", "--lr=0.5", "--mesh=data=2 pipe=2",
             "--micro_batches=4", "--data=some/text"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->config.hidden, 64);
  EXPECT_EQ(options->config.layers, 4);
  EXPECT_EQ(options->schedule.peak, 0.5);
  EXPECT_EQ(options->schedule.warmup, 20);
  EXPECT_EQ(options->stages, 2);
  EXPECT_EQ(options->session.micro_batches, 4);
  EXPECT_EQ(options->data, std::filesystem::absolute("some/text").string());
}

TEST_F(OptionsTest, ErrorsAreOneLine) {
  EXPECT_EQ(Error({"--hiden=3"}), "unknown flag --hiden; did you mean --hidden?");
  EXPECT_EQ(Error({"--preset=huge"}),
            "--preset: expected one of default, tiny, gpt_small, got \"huge\"");
  EXPECT_EQ(Error({"--steps=0"}), "--steps: expected 1 to 1e+09, got 0");
  EXPECT_EQ(Error({"--batch=9", "--micro_batches=2"}),
            "--micro_batches: expected a divisor of the batch, 9, got 2");
  EXPECT_EQ(Error({"--heads=7"}), "model: heads: expected a divisor of hidden, 192, got 7");
  EXPECT_THAT(Error({"--mesh=data=0"}), HasSubstr("--mesh: "));
  EXPECT_THAT(Error({"--mesh=pipe=100"}), HasSubstr("got pipe=100"));
  EXPECT_EQ(Error({"--sample"}), "--sample: expected --resume=RUN, the run to write with");
  EXPECT_EQ(Error({"--prompt="}), "--prompt: expected at least one byte, got none");
  EXPECT_EQ(Error({"--resume=/nowhere"}),
            "--resume: expected a checkpoint or the folder of a run, got \"/nowhere\"");
  EXPECT_EQ(Error({"--lr=nan"}), "--lr: expected 0 to 100, got nan");
}

TEST_F(OptionsTest, ResumeTakesUpTheRunsOptions) {
  const std::string run = Folder("resumed");
  const std::string first =
      Save(*Parse({"--preset=tiny", "--lr=0.25", "--mesh=data=4", "--explain"}), run, 5);
  absl::StatusOr<TrainOptions> options = Parse({"--resume=" + run, "--mesh=model=2", "--steps=7"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->resume, first);
  EXPECT_EQ(options->out, run);
  EXPECT_EQ(options->preset, "tiny");
  EXPECT_EQ(options->config.hidden, 128);
  EXPECT_EQ(options->schedule.peak, 0.25);
  EXPECT_EQ(options->schedule.steps, 7);
  EXPECT_EQ(options->session.mesh, "model=2");
  EXPECT_FALSE(options->explain);
  EXPECT_THAT(Error({"--resume=" + run, "--preset=tiny"}), HasSubstr("keeps its sizes"));

  // From an older checkpoint another run begins: the newer ones are not overwritten.
  Save(*options, run, 6);
  options = Parse({"--resume=" + first});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->out, "runs/now");
}

TEST_F(OptionsTest, FolderOfAnotherRunIsRefused) {
  const std::string run = Folder("taken");
  std::filesystem::create_directories(run);
  fclose(fopen((run + "/log.jsonl").c_str(), "w"));
  EXPECT_EQ(Error({"--out=" + run}),
            "--out: " + run + " already holds a run; --resume=" + run + " goes on with it");
  const std::string checkpoint = Save(*Parse({"--preset=tiny"}), run, 5);
  EXPECT_TRUE(Parse({"--resume=" + run}).ok());
  EXPECT_TRUE(Parse({"--resume=" + run, "--out=" + run}).ok());
}

TEST_F(OptionsTest, HelpNamesEveryFlagOnce) {
  ASSERT_TRUE(Parse({"--help"}).ok());
  EXPECT_TRUE(help_);
  const std::string text = TrainHelp();
  for (const char* flag :
       {"data",          "preset",  "layers",    "hidden",        "heads",      "sequence_length",
        "batch",         "dropout", "lr",        "steps",         "seed",       "clip",
        "weight_decay",  "warmup",  "mesh",      "micro_batches", "eval_every", "save_every",
        "keep",          "out",     "resume",    "sample",        "prompt",     "explain",
        "script_length", "trace",   "check_nan", "explain_html"}) {
    EXPECT_THAT(text, ::testing::ContainsRegex(std::string("\n  --") + flag + "[= ]"));
  }
  for (size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos;
       begin = end + 1) {
    EXPECT_LE(end - begin, 100u) << text.substr(begin, end - begin);
  }
}

}  // namespace
}  // namespace sluice
