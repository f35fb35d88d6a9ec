#include "framework/train/app_options.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "absl/flags/flag.h"
#include "absl/flags/reflection.h"
#include "framework/checkpoint/checkpoint.h"
#include "framework/train/job_flags.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

ABSL_FLAG(int64_t, width, 0, "width of the model");
ABSL_FLAG(int64_t, depth, 1, "depth of the model");
ABSL_FLAG(bool, show, false, "show what was learned, and stop");
ABSL_FLAG(std::string, colour, "red", "of what is shown");

namespace sluice {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

AppFlags Flags() {
  AppFlags flags;
  flags.help = "Trains.\n";
  flags.data = {"data", "PATH", "numbers", "numbers to learn from"};
  flags.model = {{"width", "N", "by preset"}, {"depth", "N", ""}};
  flags.more = {{"Showing", {{"show", "", ""}, {"colour", "NAME", ""}}}};
  flags.presets = {
      {"narrow", "", {{"width", "4"}, {"steps", "50"}, {"batch", "6"}, {"lr", "0.125"}}},
      {"wide", "", {{"width", "64"}, {"steps", "9"}, {"batch", "8"}, {"warmup", "3"}}},
      {"moving", "", {{"batch", "6"}, {"optimizer", "sgd"}, {"nesterov", "true"}, {"steps", "9"}}}};
  flags.shape = {"width"};
  flags.meaning = {"depth"};
  flags.use = "show";
  return flags;
}

class AppOptionsTest : public ::testing::Test {
 protected:
  absl::StatusOr<AppOptions> Parse(const std::vector<std::string>& arguments) {
    absl::FlagSaver saver;
    absl::StatusOr<AppOptions> options =
        ParseAppOptions(Flags(), arguments, {"now", datasets_, "beside", environment_}, &help_);
    width_ = absl::GetFlag(FLAGS_width);
    return options;
  }
  std::string Error(const std::vector<std::string>& arguments) {
    return std::string(Parse(arguments).status().message());
  }
  // A checkpoint of a run with these options.
  std::string Save(const AppOptions& options, const std::string& run, int64_t step) {
    fs::create_directories(run + "/checkpoints");
    CheckpointMeta meta;
    meta.step = step;
    meta.options = {options.recorded.begin(), options.recorded.end()};
    return *SaveCheckpoint(run + "/checkpoints", meta, {{"w", DType::kF32, {}}},
                           [](const TensorEntry&) { return HostTensor(DType::kF32, {}); });
  }
  std::string Folder(const char* name) {
    const std::string path = fs::path(::testing::TempDir() + "/" + name).lexically_normal();
    fs::remove_all(path);
    fs::create_directories(path);
    return path;
  }
  std::string datasets_;
  std::map<std::string, std::string> variables_;  // of the environment
  const Environment environment_ = [this](const char* name) {
    const auto found = variables_.find(name);
    return found == variables_.end() ? nullptr : found->second.c_str();
  };
  int64_t width_ = 0;
  bool help_ = false;
};

TEST_F(AppOptionsTest, TheFirstPresetRunsWithoutFlags) {
  absl::StatusOr<AppOptions> options = Parse({});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->preset, "narrow");
  EXPECT_EQ(options->batch, 6);
  EXPECT_EQ(options->schedule.steps, 50);
  EXPECT_EQ(options->schedule.peak, 0.125);
  EXPECT_EQ(options->bundled, "beside");
  EXPECT_EQ(width_, 4);
}

TEST_F(AppOptionsTest, FlagsGoOverThePreset) {
  absl::StatusOr<AppOptions> options =
      Parse({"--preset=wide", "--steps=7", "--threads=3", "--memory=1.5", "--device_memory=0.5",
             "--mesh=data=2 pipe=2", "--batch=8", "--micro_batches=4", "--zero=1"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->schedule.steps, 7);
  EXPECT_EQ(options->schedule.warmup, 3);
  EXPECT_EQ(options->session.threads_per_device, 3);
  EXPECT_EQ(options->session.memory_limit, int64_t{3} << 29);
  EXPECT_EQ(options->session.device_memory_limit, int64_t{1} << 29);
  EXPECT_EQ(options->session.micro_batches, 4);
  EXPECT_EQ(options->optimizer.zero.level, 1);
  EXPECT_EQ(options->optimizer.zero.mesh.AxisSize("data"), 2);
  EXPECT_EQ(options->stages, 2);
  EXPECT_EQ(options->devices, 4);
  EXPECT_EQ(width_, 64);
}

TEST_F(AppOptionsTest, AMachineIsReadFromItsFile) {
  const std::string path = ::testing::TempDir() + "/machine.txt";
  std::ofstream(path) << "cores=2 launch_nanoseconds=77\nkernel.gelu.1=8,16:100,200\n";
  absl::StatusOr<AppOptions> options = Parse({"--machine=" + path});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->session.machine.launch_nanoseconds, 77);
  EXPECT_TRUE(options->session.machine.HasKernel("gelu"));
  EXPECT_THAT(Error({"--machine=" + path + "x"}),
              HasSubstr("--machine: " + path + "x: cannot open: No such file"));
  std::ofstream(path) << "cores=many";
  EXPECT_THAT(Error({"--machine=" + path}), HasSubstr("expected a positive number after cores"));
}

TEST(DevicesOfRanksTest, SaysTheHostsWhereThereAreSeveral) {
  Machine machine;
  machine.host_of_rank = {0, 0, 0};
  EXPECT_EQ(*DevicesOfRanks("data=5", 3, machine), "rank 0: 0 to 1, rank 1: 2 to 3, rank 2: 4");
  machine.host_of_rank = {0, 0, 1};
  EXPECT_EQ(*DevicesOfRanks("data=5", 3, machine),
            "rank 0 on host 0: 0 to 1, rank 1 on host 0: 2 to 3, rank 2 on host 1: 4");
}

// So that --explain without a job has them as well.
TEST_F(AppOptionsTest, LinksOfAFileGoOverThoseOfTheMachine) {
  const std::string path = ::testing::TempDir() + "/links.txt";
  const std::string machine = ::testing::TempDir() + "/calibrated.txt";
  std::ofstream(machine) << "launch_nanoseconds=77 host_latency_nanoseconds=1";
  std::ofstream(path) << "network_latency_nanoseconds=5000\n";
  const absl::StatusOr<AppOptions> options = Parse({"--machine=" + machine, "--links=" + path});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->session.machine.launch_nanoseconds, 77);
  EXPECT_EQ(options->session.machine.link(LinkKind::kHost).latency_nanoseconds, 1);
  EXPECT_EQ(options->session.machine.link(LinkKind::kNetwork).latency_nanoseconds, 5000);
  EXPECT_EQ(Parse({})->job.links, "default");
  EXPECT_EQ(Parse({"--links=measure"})->job.links, "measure");
  EXPECT_THAT(Error({"--links=" + path + "x"}), HasSubstr("--links: " + path + "x: "));
  EXPECT_THAT(Error({"--links=" + machine}), HasSubstr("got \"launch_nanoseconds=77\""));
}

TEST_F(AppOptionsTest, AnOptimizerIsTakenByItsName) {
  EXPECT_EQ(Parse({})->optimizer.kind, OptimizerOptions::kAdamW);
  const auto options = Parse({"--optimizer=sgd", "--momentum=0.5", "--nesterov", "--clip=0"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->optimizer.kind, OptimizerOptions::kSgd);
  EXPECT_EQ(options->optimizer.momentum, 0.5);
  EXPECT_TRUE(options->optimizer.nesterov);
  EXPECT_EQ(options->optimizer.clip, 0);
  EXPECT_EQ(Parse({"--optimizer=sgd", "--dampening=0.25"})->optimizer.dampening, 0.25);
  const auto lamb = Parse({"--optimizer=lamb", "--beta1=0.8", "--beta2=0.999", "--epsilon=1e-6",
                           "--bias_correction=false"});
  ASSERT_TRUE(lamb.ok()) << lamb.status();
  EXPECT_EQ(lamb->optimizer.kind, OptimizerOptions::kLamb);
  EXPECT_EQ(lamb->optimizer.beta1, 0.8);
  EXPECT_EQ(lamb->optimizer.beta2, 0.999);
  EXPECT_EQ(lamb->optimizer.epsilon, 1e-6);
  EXPECT_FALSE(lamb->optimizer.bias_correction);
  const auto lars = Parse({"--optimizer=lars", "--trust_coefficient=0.02"});
  ASSERT_TRUE(lars.ok()) << lars.status();
  EXPECT_EQ(lars->optimizer.kind, OptimizerOptions::kLars);
  EXPECT_EQ(lars->optimizer.trust_coefficient, 0.02);
  EXPECT_EQ(lars->optimizer.momentum, 0.9);
  EXPECT_EQ(lars->optimizer.reduce, DType::kF32);
  EXPECT_EQ(Parse({"--reduce_dtype=bf16"})->optimizer.reduce, DType::kBF16);
}

TEST_F(AppOptionsTest, ErrorsAreOneLine) {
  EXPECT_EQ(Error({"--widht=3"}), "unknown flag --widht; did you mean --width?");
  EXPECT_EQ(Error({"--preset=huge"}),
            "--preset: expected one of narrow, wide, moving, got \"huge\"");
  EXPECT_EQ(Error({"--steps=0"}), "--steps: expected 1 to 1e+09, got 0");
  EXPECT_EQ(Error({"--batch=9", "--micro_batches=2"}),
            "--micro_batches: expected a divisor of the batch, 9, got 2");
  EXPECT_EQ(Error({"--zero=4"}), "--zero: expected 0 to 3, got 4");
  EXPECT_EQ(Error({"--beta2=1"}), "--beta2: expected 0 to 0.999999, got 1");
  EXPECT_EQ(Error({"--epsilon=-1"}), "--epsilon: expected 1e-30 to 0.1, got -1");
  EXPECT_EQ(Error({"--optimizer=sdg"}),
            "--optimizer: expected adamw, lamb, sgd, lars or adagrad, got \"sdg\"");
  EXPECT_EQ(Error({"--nesterov"}),
            "--nesterov: expected --optimizer=sgd and a momentum above 0, got adamw and 0.9");
  EXPECT_EQ(Error({"--optimizer=lars", "--dampening=0.5"}),
            "--dampening: expected --optimizer=sgd and a momentum above 0 that is not Nesterov's, "
            "got lars and 0.9");
  EXPECT_EQ(Error({"--momentum=1"}), "--momentum: expected 0 to 0.9999, got 1");
  EXPECT_EQ(Error({"--reduce_dtype=f16"}), "--reduce_dtype: expected f32 or bf16, got f16");
  EXPECT_EQ(Error({"--reduce_dtype=bf16", "--batch=8", "--micro_batches=2"}),
            "--reduce_dtype: expected f32 with --micro_batches above 1, got bf16 and 2");
  EXPECT_EQ(Error({"--precision=f16"}), "--precision: expected f32 or bf16, got f16");
  EXPECT_EQ(Error({"--residual_precision=bf16"}),
            "--residual_precision: expected f32 where --precision is f32, got bf16");
  EXPECT_EQ(Error({"--zero=2", "--mesh=model=2"}),
            "--zero: expected a mesh with an axis data, over which it splits, or 0; got 2 and "
            "--mesh=\"model=2\"");
  EXPECT_TRUE(Parse({"--zero=2", "--mesh=data=1"}).ok());  // as a script over sizes may have it
  EXPECT_EQ(Parse({"--devices=cuda", "--mesh=data=4"})->session.mesh, "data=4 @cuda");
  EXPECT_EQ(Error({"--devices=gpu"}), "--devices: expected cpu or cuda, got \"gpu\"");
  EXPECT_EQ(Error({"--devices=cuda", "--mesh=data=4 @cpu"}),
            "--devices: expected none with a mesh that names kinds of devices, got \"cuda\" and "
            "--mesh=\"data=4 @cpu\"");
  EXPECT_THAT(Error({"--mesh=data=0"}), HasSubstr("--mesh: "));
  EXPECT_EQ(Error({"--show"}), "--show: expected --resume=RUN, the run to do it with");
  EXPECT_EQ(Error({"--resume=/nowhere"}),
            "--resume: expected a checkpoint or the folder of a run, got \"/nowhere\"");
  EXPECT_EQ(Error({"--lr=nan"}), "--lr: expected 0 to 100, got nan");
}

TEST_F(AppOptionsTest, ResumeTakesUpTheRunsOptions) {
  const std::string run = Folder("resumed");
  const std::string first = Save(*Parse({"--preset=wide", "--lr=0.25", "--mesh=data=4", "--explain",
                                         "--colour=blue", "--threads=2"}),
                                 run, 5);
  absl::StatusOr<AppOptions> options = Parse({"--resume=" + run, "--mesh=model=2", "--steps=7"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->resume.checkpoint, first);
  EXPECT_EQ(options->out, run);
  EXPECT_EQ(options->preset, "wide");
  EXPECT_EQ(width_, 64);
  EXPECT_EQ(options->schedule.peak, 0.25);
  EXPECT_EQ(options->schedule.steps, 7);
  EXPECT_EQ(options->session.mesh, "model=2");
  EXPECT_EQ(options->session.threads_per_device, 0);
  EXPECT_FALSE(options->explain);
  for (const auto& flag : options->recorded) {
    EXPECT_NE(flag.first, "colour");
    EXPECT_NE(flag.first, "show");
  }
  EXPECT_THAT(Error({"--resume=" + run, "--preset=wide"}), HasSubstr("keeps its sizes"));

  // From an older checkpoint another run begins: the newer ones are not overwritten.
  Save(*options, run, 6);
  options = Parse({"--resume=" + first});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->out, "runs/now");
  EXPECT_TRUE(Parse({"--resume=" + first, "--show"})->use);
}

// A checkpoint may come from anyone.
TEST_F(AppOptionsTest, ACheckpointSetsNoFlagThatNoRunRecords) {
  const std::string run = Folder("given");
  AppOptions options = *Parse({});
  for (const char* name : {"explain_html", "trace", "out", "machine", "resume", "show", "colour",
                           "change_data", "memory", "threads", "explain"}) {
    EXPECT_EQ(std::count_if(options.recorded.begin(), options.recorded.end(),
                            [&](const auto& flag) { return flag.first == name; }),
              0);
    AppOptions made = options;
    made.recorded.emplace_back(name, "1");
    Save(made, run, 5);
    EXPECT_EQ(Error({"--resume=" + run}),
              std::string("--") + name +
                  ": expected on the command line alone, got \"1\" from the checkpoint, which no "
                  "run of this program wrote");
  }
  EXPECT_EQ(options.recorded.size(), 38u);
}

TEST_F(AppOptionsTest, ATrainedModelKeepsItsShape) {
  const std::string run = Folder("shape");
  Save(*Parse({"--width=2"}), run, 5);
  EXPECT_EQ(Error({"--resume=" + run, "--width=4"}),
            "--width: expected 2, as the checkpoint's model has it, got 4");
  EXPECT_TRUE(Parse({"--resume=" + run, "--width=02"}).ok());
  EXPECT_EQ(width_, 2);
}

TEST_F(AppOptionsTest, EveryWayToNameTheLastCheckpointGoesOnWithItsRun) {
  const std::string run = Folder("named");
  const std::string first = Save(*Parse({}), run, 5), last = Save(*Parse({}), run, 6);
  const std::string link = Folder("links") + "/best";
  fs::create_directory_symlink(last, link);
  for (const std::string& path : {last, last + "/", last + "/.", run + "/checkpoints/", link}) {
    const auto options = Parse({"--resume=" + path});
    ASSERT_TRUE(options.ok()) << options.status();
    EXPECT_TRUE(fs::equivalent(options->out, run)) << path << " goes to " << options->out;
  }
  EXPECT_TRUE(Parse({"--resume=" + first + "/"})->out_by_time);
  const fs::path before = fs::current_path();
  for (const std::string& folder : {run, run + "/checkpoints", last}) {
    fs::current_path(folder);
    const auto options = Parse({"--resume=."});
    ASSERT_TRUE(options.ok()) << options.status();
    EXPECT_TRUE(fs::equivalent(options->out, run)) << "in " << folder << ", to " << options->out;
    fs::current_path(before);
  }
}

// It may be whole: the run does not go back behind it.
TEST_F(AppOptionsTest, ACheckpointThatCannotBeReadIsTold) {
  const std::string run = Folder("unread");
  Save(*Parse({}), run, 5);
  const std::string tensors = Save(*Parse({}), run, 6) + "/tensors.safetensors";
  fs::remove(tensors);
  fs::create_symlink("tensors.safetensors", tensors);
  EXPECT_THAT(Error({"--resume=" + run}),
              HasSubstr("--resume: a checkpoint that may be whole cannot be read: "));
  // What is missing is missing for good.
  fs::remove(tensors);
  const auto options = Parse({"--resume=" + run});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->resume.checkpoint, run + "/checkpoints/step-000005");
}

TEST_F(AppOptionsTest, APathThatIsNoUtf8IsRefused) {
  EXPECT_THAT(
      Error({"--data=/texts/b\xe4r"}),
      HasSubstr("--data: expected UTF-8, as checkpoints record it, got \"/texts/b\\xe4r\""));
  EXPECT_TRUE(Parse({"--data=/texts/b\xc3\xa4r"}).ok());
}

TEST_F(AppOptionsTest, AMachineThatIsAPipeIsRefused) {
  const std::string path = Folder("pipes") + "/machine";
  ASSERT_EQ(mkfifo(path.c_str(), 0644), 0);
  EXPECT_EQ(Error({"--machine=" + path}),
            "--machine: " + path + ": expected a file, got a pipe or device");
}

TEST_F(AppOptionsTest, FolderOfAnotherRunIsRefused) {
  const std::string run = Folder("taken");
  // Whoever has saved nothing is in nobody's way.
  std::ofstream(run + "/log.jsonl") << "{}\n";
  EXPECT_EQ(Parse({"--out=" + run})->resume.checkpoint, "");
  EXPECT_EQ(Error({"--resume=" + run}), "--resume: expected a checkpoint in " + run +
                                            ", whose run has not saved one yet; the "
                                            "command that began it, given again, begins it anew");
  Save(*Parse({"--preset=wide", "--lr=0.5"}), run, 5);
  EXPECT_TRUE(Parse({"--resume=" + run}).ok());
  EXPECT_TRUE(Parse({"--resume=" + run, "--out=" + run}).ok());
  // Checkpoints alone are those of a run too.
  fs::remove(run + "/log.jsonl");
  EXPECT_EQ(Error({"--out=" + run, "--preset=wide", "--lr=0.25", "--seed=3"}),
            "--out: " + run +
                " already holds a run, of other options (--lr=0.5 --seed=1); "
                "--resume=" +
                run + " goes on with it");
}

// As people give it, or Slurm after a job was taken off its nodes.
TEST_F(AppOptionsTest, TheSameCommandAgainGoesOnWithItsRun) {
  const std::string run = Folder("again");
  const std::vector<std::string> command = {"--out=" + run, "--preset=wide", "--lr=0.5"};
  const std::string checkpoint = Save(*Parse(command), run, 5);
  const absl::StatusOr<AppOptions> again = Parse(command);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->resume.checkpoint, checkpoint);
  EXPECT_EQ(again->resume.run, run);
  EXPECT_EQ(again->schedule.peak, 0.5);
  EXPECT_EQ(width_, 64);
  EXPECT_TRUE(again->changed.empty());
  // Of the same data elsewhere, as hosts may have it, nobody can tell yet.
  std::ofstream(run + "/data") << "1\n";
  std::vector<std::string> elsewhere = command;
  elsewhere.push_back("--data=" + run + "/data");
  EXPECT_EQ(Parse(elsewhere)->resume.checkpoint, checkpoint);
  // A path, a wait or a thread more make no other run.
  EXPECT_EQ(Parse({"--out=" + run, "--preset=wide", "--lr=0.50", "--threads=1", "--explain_html=p"})
                ->resume.checkpoint,
            checkpoint);
}

TEST_F(AppOptionsTest, WhatIsChangedOnResumeIsListedAndWhatCannotBeIsRefusedByName) {
  const std::string run = Folder("changed");
  Save(*Parse({"--optimizer=sgd", "--momentum=0.5"}), run, 5);
  const absl::StatusOr<AppOptions> options =
      Parse({"--resume=" + run, "--weight_decay=0.25", "--seed=1", "--lr=0.5", "--momentum=0.25"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_THAT(options->changed,
              ::testing::ElementsAre("--lr=0.5, was 0.125", "--momentum=0.25, was 0.5",
                                     "--weight_decay=0.25, was 0.1"));
  const std::string has = ", as the checkpoint's run has it, got ";
  EXPECT_EQ(Error({"--resume=" + run, "--optimizer=adamw"}),
            "--optimizer: expected sgd" + has + "adamw");
  EXPECT_EQ(Error({"--resume=" + run, "--momentum=0"}), "--momentum: expected 0.5" + has + "0");
  EXPECT_EQ(Error({"--resume=" + run, "--batch=12"}), "--batch: expected 6" + has + "12");
}

TEST_F(AppOptionsTest, WhichCheckpointARunBeganWithIsRecordedAndNotTakenUp) {
  const std::string first = Folder("first"), run = Folder("init");
  const std::string init = Save(*Parse({"--width=2"}), first, 9);
  const AppOptions options = *Parse({"--init=" + init, "--out=" + run});
  EXPECT_EQ(options.init, init);
  EXPECT_EQ(options.init_digest, Checkpoint::Load(init)->digest());
  const std::pair<std::string, std::string> path = {"init", init};
  const std::pair<std::string, std::string> digest = {"init_digest", options.init_digest};
  EXPECT_THAT(options.recorded, ::testing::IsSupersetOf({path, digest}));
  Save(options, run, 5);
  // The same command goes on, and begins with nothing; the record stays.
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"--init=" + init, "--out=" + run}, {"--resume=" + run}}) {
    const absl::StatusOr<AppOptions> again = Parse(command);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->init, "");
    EXPECT_THAT(again->recorded, ::testing::IsSupersetOf({path, digest}));
  }
  // So does one that has a copy of the checkpoint, or knows where it was.
  const std::string copy = Folder("copy");
  fs::remove_all(copy);
  fs::copy(init, copy, fs::copy_options::recursive);
  EXPECT_EQ(Parse({"--init=" + copy, "--out=" + run})->resume.run, run);
  const std::string other = Save(*Parse({"--width=2"}), Folder("other"), 10);
  EXPECT_THAT(Error({"--init=" + other, "--out=" + run}), HasSubstr("other options (--init="));
  EXPECT_THAT(Error({"--out=" + run}), HasSubstr("other options (--init=" + init + ")"));
  // Depth does not show in the shapes of its parameters.
  EXPECT_EQ(Error({"--init=" + init, "--depth=3"}),
            "--depth: expected 1, as the checkpoint of --init has it, got 3");
  EXPECT_THAT(Error({"--init=/nowhere"}), HasSubstr("--init: /nowhere/manifest.json"));
}

TEST_F(AppOptionsTest, APresetsOwnFormOfAnOptimizerGoesWithItsOptimizer) {
  EXPECT_TRUE(Parse({"--preset=moving"})->optimizer.nesterov);
  const AppOptions other = *Parse({"--preset=moving", "--optimizer=adamw"});
  EXPECT_FALSE(other.optimizer.nesterov);
  EXPECT_NE(std::find(other.recorded.begin(), other.recorded.end(),
                      std::pair<std::string, std::string>("nesterov", "false")),
            other.recorded.end());
  EXPECT_FALSE(Parse({"--preset=moving", "--momentum=0"})->optimizer.nesterov);
  const std::string run = Folder("moving");
  const std::vector<std::string> command = {"--preset=moving", "--optimizer=adamw", "--out=" + run};
  const std::string checkpoint = Save(*Parse(command), run, 5);
  EXPECT_EQ(Parse(command)->resume.checkpoint, checkpoint) << "the same command again";
  EXPECT_THAT(Error({"--optimizer=adamw", "--nesterov"}), HasSubstr("--nesterov: expected"));
}

TEST_F(AppOptionsTest, EvaluationsAreLimitedByFlags) {
  EXPECT_EQ(Parse({})->final_eval_batches, kAllBatches);
  EXPECT_EQ(Parse({"--final_eval=0"})->final_eval_batches, 0);
  EXPECT_EQ(Parse({"--final_eval=20", "--eval_batches=3"})->final_eval_batches, 20);
  EXPECT_EQ(Error({"--final_eval=some"}),
            "--final_eval: expected all, or a number of batches from 0 on, got \"some\"");
  EXPECT_EQ(Error({"--epsilon=0"}), "--epsilon: expected 1e-30 to 0.1, got 0");
}

TEST_F(AppOptionsTest, APathInTheHomeFolderIsFoundThere) {
  ASSERT_EQ(setenv("HOME", "/home/somebody", 1), 0);
  EXPECT_EQ(Parse({"--out=~/runs/a"})->out, "/home/somebody/runs/a");
  EXPECT_EQ(Parse({"--out", "~"})->out, "/home/somebody");
  EXPECT_EQ(Parse({"--out=~other/a"})->out, "~other/a");
  EXPECT_THAT(Error({"--mesh=~/data"}), HasSubstr("\"~/data\""));  // no path
}

TEST_F(AppOptionsTest, AnInstalledDataSetIsNamedByItsName) {
  datasets_ = Folder("datasets");
  fs::create_directories(datasets_ + "/numerals");
  EXPECT_EQ(Parse({"--data=numerals"})->data, datasets_ + "/numerals");
  EXPECT_EQ(Parse({"--data=letters"})->data, fs::absolute("letters").string());
  // What lies here goes first.
  fs::create_directories("numerals");
  EXPECT_EQ(Parse({"--data=numerals"})->data, fs::absolute("numerals").string());
  fs::remove("numerals");
}

TEST_F(AppOptionsTest, TheFolderOfARunIsNoData) {
  const std::string run = Folder("learned");
  const std::string checkpoint = Save(*Parse({}), run, 5);
  std::ofstream(run + "/log.jsonl") << "{}\n";
  for (const std::string& folder : {run, run + "/", checkpoint}) {
    EXPECT_THAT(Error({"--data=" + folder}), HasSubstr(" is the folder of a run"));
  }
  for (const char* written :
       {"/log.jsonl", "/checkpoints", "/checkpoints/step-000005/manifest.json",
        "/checkpoints/step-000005/tensors.safetensors"}) {
    EXPECT_THAT(Error({"--data=" + run + written}), HasSubstr(" is what the run "));
  }
  const std::string own = Folder("own");
  EXPECT_THAT(Error({"--data=" + own, "--out=" + own}), HasSubstr(" is the folder of a run"));
  EXPECT_TRUE(Parse({"--data=" + own}).ok());
}

TEST_F(AppOptionsTest, WhatIsWrittenAboutARunReplacesNothingOfIts) {
  const std::string run = Folder("traced"), data = run + "/book.txt", other = run + "/linked.txt";
  const std::string checkpoint = Save(*Parse({}), run, 5);
  std::ofstream(run + "/log.jsonl") << "{}\n";
  std::ofstream(data) << "precious";
  fs::create_symlink("book.txt", other);
  for (const std::string flag : {"trace", "explain_html"}) {
    for (const std::string& path : {data, other, run + "/./book.txt"}) {
      EXPECT_EQ(Error({"--data=" + data, "--" + flag + "=" + path}),
                "--" + flag + ": expected a file of its own, got " + path + ", which is --data");
    }
    for (const char* written : {"/log.jsonl", "/options.txt", "/checkpoints/step-000005/x"}) {
      std::ofstream(run + "/options.txt") << "";
      EXPECT_THAT(Error({"--" + flag + "=" + run + written}), HasSubstr(" is what the run "));
    }
    EXPECT_TRUE(Parse({"--data=" + data, "--" + flag + "=" + run + "/new"}).ok());
  }
  EXPECT_EQ(Error({"--trace=new", "--explain_html=./new"}),
            "--explain_html: expected a file of its own, got ./new, which is --trace");
}

TEST_F(AppOptionsTest, WhichProcessOfAJobItIs) {
  EXPECT_EQ(Parse({})->job.place.ranks, 1);
  const LaunchPlace place = Parse({"--ranks=4", "--rank=2", "--rendezvous=node:29500"})->job.place;
  EXPECT_EQ(place.rank, 2);
  EXPECT_EQ(place.text, "by hand: rank 2 of 4, rendezvous at node:29500");
  EXPECT_EQ(Error({"--ranks=4", "--rank=4", "--rendezvous=node:29500"}),
            "--rank: expected 0 to 3, got 4");
  EXPECT_THAT(Error({"--ranks=4"}), HasSubstr("--rendezvous: expected HOST:PORT with --ranks"));
  EXPECT_THAT(Error({"--ranks=-1"}), HasSubstr("--ranks: expected 1 to "));
  EXPECT_THAT(Error({"--ranks=2", "--rendezvous=node"}), HasSubstr("got \"node\""));
  EXPECT_TRUE(Parse({})->job.read_memory);
  EXPECT_FALSE(Parse({"--net=tcp"})->job.read_memory);
  EXPECT_EQ(Parse({"--ride_along=0"})->job.most_along, 0);
  EXPECT_EQ(Error({"--ride_along=-1"}), "--ride_along: expected 0 to 1048576 bytes, got -1");
  EXPECT_FALSE(Parse({"--net=auto"})->job.rdma);
  EXPECT_TRUE(Parse({"--net=verbs"})->job.rdma);
  EXPECT_TRUE(Parse({"--net=verbs"})->job.read_memory);
  EXPECT_EQ(Parse({"--net=verbs", "--rdma_device=mlx5_0:2"})->job.rdma_device, "mlx5_0:2");
  EXPECT_EQ(Error({"--net=udp"}), "--net: expected auto, verbs or tcp, got \"udp\"");
  EXPECT_EQ(Error({"--net=tcp", "--rdma_device=mlx5_0"}),
            "--rdma_device: expected --net=verbs with it, got --net=tcp");
  EXPECT_FALSE(Parse({})->job.seal);
  EXPECT_TRUE(Parse({"--seal"})->job.seal);
  EXPECT_EQ(
      Error({"--seal", "--net=verbs"}),
      "--seal: expected --net=auto or tcp with it, got --net=verbs, whose RDMA is not sealed");
  EXPECT_THAT(Error({"--stall_limit=0"}), HasSubstr("--stall_limit: expected seconds above 0"));
  EXPECT_THAT(Error({"--check_replicas=-1"}), HasSubstr("--check_replicas: expected steps of 0"));
  variables_ = {{"RANK", "1"},           {"WORLD_SIZE", "2"},
                {"LOCAL_RANK", "1"},     {"LOCAL_WORLD_SIZE", "2"},
                {"MASTER_ADDR", "node"}, {"MASTER_PORT", "29500"}};
  const absl::StatusOr<AppOptions> launched = Parse({});
  ASSERT_TRUE(launched.ok()) << launched.status();
  EXPECT_EQ(launched->job.place.rank, 1);
  EXPECT_EQ(launched->job.place.ranks, 2);
  variables_["RANK"] = "2";
  EXPECT_THAT(Error({}), HasSubstr("RANK"));
}

// A job that is begun again goes on with its run where that has saved something, and begins it anew
// where not; what was logged is kept.
TEST_F(AppOptionsTest, AJobThatIsBegunAgainGoesOn) {
  const std::string run = Folder("begun");
  variables_ = {{"RANK", "0"},
                {"WORLD_SIZE", "2"},
                {"LOCAL_RANK", "0"},
                {"LOCAL_WORLD_SIZE", "2"},
                {"MASTER_ADDR", "node"},
                {"MASTER_PORT", "29500"},
                {"TORCHELASTIC_RESTART_COUNT", "1"}};
  EXPECT_THAT(Error({}), HasSubstr("--out: expected the folder of the run"));
  EXPECT_EQ(Parse({"--out=" + run})->resume.checkpoint, "");
  const std::string checkpoint = Save(*Parse({"--out=" + run}), run, 5);
  std::ofstream(run + "/log.jsonl") << "{}\n";
  // Of what began the run nothing has to be taken back.
  EXPECT_EQ(Parse({"--out=" + run, "--preset=narrow", "--steps=7"})->resume.checkpoint, checkpoint);
  EXPECT_TRUE(fs::exists(run + "/log.jsonl"));
}

TEST_F(AppOptionsTest, HelpGivesEveryFlagAndWhatAModelSaysOfIts) {
  ASSERT_TRUE(Parse({"--help"}).ok());
  EXPECT_TRUE(help_);
  const std::string text = AppHelp(Flags());
  EXPECT_THAT(text, HasSubstr("Presets\n  narrow"));
  EXPECT_THAT(text, HasSubstr("\n  --data=PATH             numbers to learn from [numbers]\n"));
  EXPECT_THAT(text, HasSubstr("\nShowing\n  --show"));
  EXPECT_THAT(text, HasSubstr("[narrow]"));
}

}  // namespace
}  // namespace sluice
