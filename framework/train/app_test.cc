// A program of another kind than any language model: it learns the slope of a line from numbers, is
// fed by a data set of two fields of other types, evaluates two metrics in micro-batches, and shows
// its slope after training.
#include "framework/train/app.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/reflection.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/checkpoint/file.h"
#include "framework/ops/ops.h"
#include "framework/passes/optimizer.h"
#include "framework/train/run_lock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

ABSL_FLAG(double, slope, 3, "slope of the line");
ABSL_FLAG(bool, show, false, "show the slope that was learned, and stop");

namespace sluice {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::internal::CaptureStderr;
using ::testing::internal::CaptureStdout;
using ::testing::internal::GetCapturedStderr;
using ::testing::internal::GetCapturedStdout;

// Sample n: "x" is n / 100 and "y" the slope times that. Who asks which data it is, which follows
// the start of the session, or reads it first gets a signal, where one is given.
class Line : public Dataset {
 public:
  explicit Line(double slope, int when_asked = 0, int when_read = 0)
      : slope_(static_cast<float>(slope)), when_asked_(when_asked), when_read_(when_read) {}
  int64_t num_samples() const override { return 100; }
  const std::vector<SampleField>& fields() const override { return fields_; }
  DataIdentity identity() const override {
    if (when_asked_ != 0 && !sent_.exchange(true)) raise(when_asked_);
    return {800, static_cast<uint64_t>(slope_ * 1000), /*sampled=*/200};
  }
  absl::Status Fill(int field, absl::Span<const int64_t> samples, int64_t, const Box&,
                    std::byte* to) const override {
    if (when_read_ != 0 && !sent_.exchange(true)) raise(when_read_);
    auto* values = reinterpret_cast<float*>(to);
    for (const int64_t sample : samples) {
      const float x = static_cast<float>(sample) / 100;
      *values++ = field == 0 ? x : slope_ * x;
    }
    return absl::OkStatus();
  }

 private:
  const float slope_;
  const int when_asked_, when_read_;
  mutable std::atomic<bool> sent_ = false;
  const std::vector<SampleField> fields_ = {{"x", DType::kF32, {1}}, {"y", DType::kF32, {1}}};
};

// The same, and whoever reads it moves the folder of the run away first.
class MovingLine : public Line {
 public:
  explicit MovingLine(std::string folder) : Line(3), folder_(std::move(folder)) {}
  absl::Status Fill(int field, absl::Span<const int64_t> samples, int64_t position, const Box& box,
                    std::byte* to) const override {
    std::error_code there;
    if (!moved_.exchange(true)) fs::rename(folder_, folder_ + "-elsewhere", there);
    return Line::Fill(field, samples, position, box, to);
  }

 private:
  const std::string folder_;
  mutable std::atomic<bool> moved_ = false;
};

// The same, and which samples were asked for.
class SeenLine : public Line {
 public:
  SeenLine(double slope, std::vector<int64_t>* seen) : Line(slope), seen_(seen) {}
  absl::Status Fill(int field, absl::Span<const int64_t> samples, int64_t position, const Box& box,
                    std::byte* to) const override {
    if (field == 0) {
      const std::lock_guard<std::mutex> lock(mutex_);
      seen_->insert(seen_->end(), samples.begin(), samples.end());
    }
    return Line::Fill(field, samples, position, box, to);
  }

 private:
  mutable std::mutex mutex_;
  std::vector<int64_t>* const seen_;
};

// Mean squared error, and the mean absolute value of what it predicts.
void BuildLoss(const AppOptions& options, Graph* graph, Tensor* loss, Tensor* squares,
               Tensor* size) {
  Tensor x = graph->Input("x", DType::kF32, {options.batch, 1}, "data:S0");
  Tensor y = graph->Input("y", DType::kF32, {options.batch, 1}, "data:S0");
  Tensor predicted = MatMul(x, Scope(graph).Param("w", {1, 1}, "", {"normal", 0.01}));
  Tensor error = predicted - y;
  const double count = static_cast<double>(options.batch);
  *loss = Scale(ReduceSum(error * error, {0, 1}), 1 / count);
  // Of each sample.
  *squares = ReduceSum(error * error, {1});
  *size = ReduceSum(predicted, {1});
}

absl::Status Build(const AppOptions& options, std::vector<std::unique_ptr<AppProgram>>* programs) {
  for (const char* name : {"train", "eval"}) {
    auto program = std::make_unique<AppProgram>();
    program->name = name;
    Graph* graph = &program->graph;
    Tensor loss, squares, size;
    BuildLoss(options, graph, &loss, &squares, &size);
    if (programs->empty()) {
      OptimizerOptions sgd;
      sgd.kind = OptimizerOptions::kSgd;
      const absl::Status status = AddTraining(graph, loss, sgd);
      if (!status.ok()) return status;
    } else {
      program->micro_batches = 4;  // training takes 2
      graph->Output("loss", squares);
      graph->Output("size", size);
    }
    const absl::Status status = graph->Finish();
    if (!status.ok()) return status;
    programs->push_back(std::move(program));
  }
  return absl::OkStatus();
}

App LineApp() {
  App app;
  app.name = "line";
  app.ends_process = false;
  app.flags.help = "Learns a line.\n";
  app.flags.data = {"data", "PATH", "a line"};
  app.flags.model = {{"slope", "X", ""}};
  app.flags.more = {{"Showing", {{"show", "", ""}}}};
  app.flags.presets = {
      {"default", "", {{"steps", "8"}, {"batch", "8"}, {"lr", "0.5"}, {"warmup", "1"}}}};
  app.flags.not_recorded = {"slope"};
  app.flags.use = "show";
  app.read = [](const AppOptions& options) -> absl::StatusOr<AppModel> {
    if (options.batch > 64) return absl::InvalidArgumentError("--batch: expected at most 64");
    AppModel model;
    model.summary = "a line";
    model.metrics = {{"loss", "squares"}, {"size", ""}};
    return model;
  };
  app.build = Build;
  app.open_data = [](const AppOptions& options) -> absl::StatusOr<AppData> {
    if (!options.data.empty()) return absl::NotFoundError("data: no numbers in " + options.data);
    AppData data;
    data.training = std::make_unique<Line>(absl::GetFlag(FLAGS_slope));
    data.held_out = std::make_unique<Line>(absl::GetFlag(FLAGS_slope));
    data.lines = {"line       of 100 points"};
    data.facts = {{"slope", absl::StrCat(absl::GetFlag(FLAGS_slope))}};
    return data;
  };
  app.use = [](Session* session, const AppOptions&, const std::function<bool()>&) {
    absl::PrintF("slope %.2f\n", *session->Read("w")->data<float>());
    return absl::OkStatus();
  };
  return app;
}

class AppTest : public ::testing::Test {
 protected:
  void SetUp() override {
    out_ = ::testing::TempDir() + "/app_" +
           ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(out_);
  }
  int Run(std::vector<std::string> arguments) { return Run(LineApp(), std::move(arguments)); }
  int Run(const App& app, std::vector<std::string> arguments) {
    absl::FlagSaver saver;
    arguments.insert(arguments.begin(), "program");
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    CaptureStdout();
    CaptureStderr();
    const int code = RunApp(app, static_cast<int>(argv.size()), argv.data());
    printed_ = GetCapturedStdout();
    error_ = GetCapturedStderr();
    return code;
  }
  std::string Log() { return *ReadText(out_ + "/log.jsonl", 1 << 20); }
  std::string out_, printed_, error_;
};

TEST_F(AppTest, TrainsEvaluatesSavesAndShows) {
  ASSERT_EQ(Run({"--out=" + out_, "--micro_batches=2", "--eval_every=4"}), 0) << error_;
  for (const char* part :
       {"model      a line\n", "line       of 100 points\n", "machine    data=2 on ",
        "identity   the data to learn from is recognized by 25 % of its bytes, evenly spread",
        "identity   the data that is held out is recognized by 25 % of its bytes",
        "step 0: held-out loss ", ", size ", "step 8/8", " samples/s", " on 64 of 100 samples\n",
        " on all 100 samples\n", "slope ",
        "loss in squares; o: on held-out data, 64 of its samples\n", "\nheld-out loss ", ", size ",
        " on all 100 samples; loss in squares\n", "\ncheckpoint ", "checkpoints/step-000008\n"}) {
    EXPECT_THAT(printed_, HasSubstr(part));
  }
  for (const char* part :
       {"{\"step\":0,\"val_subset_loss\":", ",\"val_subset_size\":", ",\"slope\":\"3\"}",
        "{\"step\":4,\"val_subset_loss\":", "{\"step\":8,\"val_subset_loss\":",
        "{\"step\":8,\"val_loss\":", ",\"val_samples\":100}", "\"samples_per_second\":"}) {
    EXPECT_THAT(Log(), HasSubstr(part));
  }
  const CheckpointMeta meta = Checkpoint::Load(out_ + "/checkpoints/step-000008")->meta();
  EXPECT_EQ(meta.samples, 64);
  EXPECT_EQ(meta.data.at("training").bytes, 800);
  EXPECT_EQ(meta.data.count("held-out"), 1);

  const std::string learned = printed_.substr(printed_.find("slope "), 11);
  ASSERT_EQ(Run({"--resume=" + out_, "--show"}), 0) << error_;
  EXPECT_THAT(printed_, HasSubstr(learned));
  EXPECT_THAT(printed_, ::testing::Not(HasSubstr("held-out")));
}

// A metric that is no mean of outputs: the model runs what programs it likes.
TEST_F(AppTest, AModelMayEvaluateItself) {
  App app = LineApp();
  app.read = [](const AppOptions&) -> absl::StatusOr<AppModel> {
    AppModel model;
    model.metrics = {{"distance", ""}, {"asked", ""}};
    return model;
  };
  std::vector<int64_t> counts;
  app.evaluate = [&counts](Session* session, const AppData& data,
                           const EvaluationOptions& how) -> absl::StatusOr<Evaluation> {
    counts.push_back(SamplesToEvaluate(*data.held_out, how));
    return Evaluation{
        {*session->Read("w")->data<float>() + 100, static_cast<double>(counts.size())},
        counts.back(),
        data.held_out->num_samples()};
  };
  ASSERT_EQ(Run(app, {"--out=" + out_, "--eval_every=4"}), 0) << error_;
  EXPECT_THAT(counts, ::testing::ElementsAre(64, 64, 64, 100));
  EXPECT_THAT(Log(), HasSubstr("{\"step\":4,\"val_subset_distance\":10"));
  EXPECT_THAT(Log(), HasSubstr(",\"val_asked\":4,\"val_samples\":100}"));
  // What is no loss is drawn apart from the loss.
  EXPECT_THAT(printed_, HasSubstr("\n          loss\n\n"));
  EXPECT_THAT(printed_, HasSubstr("\n          distance on held-out data, 64 of its samples\n\n"));
  EXPECT_THAT(printed_, HasSubstr("\nheld-out distance 10"));

  app.evaluate = [](Session*, const AppData&,
                    const EvaluationOptions&) -> absl::StatusOr<Evaluation> {
    return Evaluation{{1}, 100, 100};
  };
  EXPECT_EQ(Run(app, {"--out=" + out_ + "2"}), 1);
  EXPECT_EQ(error_, "line: evaluation: expected a value for each of 2 metrics, got 1\n");
}

// The means of an evaluation do not depend on how it is cut, but for rounding.
TEST_F(AppTest, EvaluationHasMicroBatchesOfItsOwn) {
  std::vector<std::unique_ptr<AppProgram>> programs;
  AppOptions options;
  options.batch = 8;
  ASSERT_TRUE(Build(options, &programs).ok());
  const Line line(3);
  double losses[2];
  for (int i = 0; i < 2; ++i) {
    const auto session = Session::Start(
        {{"train", &programs[0]->graph, 2}, {"eval", &programs[1]->graph, i == 0 ? 4 : 1}},
        SessionOptions());
    ASSERT_TRUE(session.ok()) << session.status();
    HostTensor x(DType::kF32, {8, 1}), y(DType::kF32, {8, 1});
    for (int row = 0; row < 8; ++row) x.data<float>()[row] = y.data<float>()[row] = row;
    ASSERT_TRUE((*session)->Step("eval", {{"x", &x}, {"y", &y}}).ok());
    const HostTensor rows = (*session)->Next()->at("loss");
    ASSERT_EQ(rows.shape, Shape{8});
    losses[i] = std::accumulate(rows.data<float>(), rows.data<float>() + 8, 0.0);
  }
  EXPECT_GT(losses[0], 1);
  EXPECT_NEAR(losses[0], losses[1], 1e-5 * losses[1]);
  // An eighth of a sample is none.
  EXPECT_THAT(
      std::string(Session::Start({{"train", &programs[0]->graph}, {"eval", &programs[1]->graph, 3}},
                                 SessionOptions())
                      .status()
                      .message()),
      HasSubstr("program eval: "));
}

TEST_F(AppTest, OtherDataIsRefusedOnResumeWithBothNamed) {
  ASSERT_EQ(Run({"--out=" + out_}), 0) << error_;
  const std::string log = Log();
  EXPECT_EQ(Run({"--resume=" + out_, "--steps=10", "--slope=4"}), 1);
  EXPECT_EQ(error_,
            "line: --resume: expected the held-out data that the run has seen, 800 bytes of digest "
            "0000000000000bb8, got 800 bytes of digest 0000000000000fa0; --change_data goes on all "
            "the same\n");
  EXPECT_EQ(Log(), log);
  EXPECT_EQ(Run({"--resume=" + out_, "--steps=10", "--slope=4", "--change_data"}), 0) << error_;
  EXPECT_EQ(Run({"--resume=" + out_, "--steps=12", "--slope=4"}), 0) << error_;
}

TEST_F(AppTest, ARunThatAnotherProcessHasIsLeftAlone) {
  fs::create_directories(out_);
  {
    const auto lock = RunLock::Take(out_);
    ASSERT_TRUE(lock.ok()) << lock.status();
    EXPECT_EQ(Run({"--out=" + out_}), 1);
    EXPECT_THAT(error_, HasSubstr(absl::StrCat("no other process at work, process ", getpid())));
    EXPECT_EQ(*ListDirectory(out_), std::vector<std::string>{kRunLock});
  }
  ASSERT_EQ(Run({"--out=" + out_}), 0) << error_;
  const std::string log = Log(), options = *ReadText(out_ + "/options.txt", 1 << 20);
  const auto lock = RunLock::Take(out_);
  EXPECT_EQ(Run({"--resume=" + out_, "--steps=10"}), 1);
  EXPECT_THAT(error_, HasSubstr("no other process at work, process "));
  EXPECT_EQ(Log(), log);
  EXPECT_EQ(*ReadText(out_ + "/options.txt", 1 << 20), options);
  EXPECT_EQ(Run({"--resume=" + out_, "--show"}), 0) << error_;  // which only reads
}

// Who may not have a folder is told before data is read; who gives it up then leaves it as it was.
TEST_F(AppTest, AFolderIsTakenBeforeDataIsOpened) {
  App app = LineApp();
  int opened = 0;
  app.open_data = [&](const AppOptions& options) -> absl::StatusOr<AppData> {
    ++opened;
    EXPECT_EQ(RunLock::Take(options.out).status().code(), absl::StatusCode::kAlreadyExists);
    return absl::DataLossError("no line");
  };
  EXPECT_EQ(Run(app, {"--out=" + out_}), 1);
  EXPECT_EQ(error_, "line: no line\n");
  EXPECT_EQ(opened, 1);
  EXPECT_FALSE(fs::exists(out_));
  fs::create_directories(out_);
  const auto lock = RunLock::Take(out_);
  EXPECT_EQ(Run(app, {"--out=" + out_}), 1);
  EXPECT_THAT(error_, HasSubstr("no other process at work, process "));
  EXPECT_EQ(opened, 1);
}

// As a run that is stopped while it trains, this is no error; nothing is left of it.
TEST_F(AppTest, AnInterruptWhileThePlanIsCompiledEndsWithALine) {
  App app = LineApp();
  app.build = [](const AppOptions& options, std::vector<std::unique_ptr<AppProgram>>* programs) {
    raise(SIGINT);
    return Build(options, programs);
  };
  for (const char* flag : {"--eval_every=4", "--explain"}) {
    EXPECT_EQ(Run(app, {"--out=" + out_, flag}), 0) << error_;
    EXPECT_EQ(error_, "");
    EXPECT_EQ(printed_, "model      a line\nstopped before it began; nothing has been run\n");
    EXPECT_FALSE(fs::exists(out_));
  }
}

// Another rank that was told to stop as well may be gone before this one looks; without that it is
// a rank that was lost.
TEST_F(AppTest, AStopExplainsThatAnotherRankHasGone) {
  for (const bool stopped : {true, false}) {
    App app = LineApp();
    app.build = [&](const AppOptions&, std::vector<std::unique_ptr<AppProgram>>*) {
      if (stopped) raise(SIGTERM);
      return absl::UnavailableError("rank 3 has left");
    };
    EXPECT_EQ(Run(app, {"--out=" + out_}), stopped ? 0 : 1);
    EXPECT_EQ(error_, stopped ? "" : "line: rank 3 has left\n");
    EXPECT_THAT(printed_, ::testing::EndsWith(stopped ? "nothing has been run\n" : "a line\n"));
    EXPECT_FALSE(fs::exists(out_));
  }
}

TEST_F(AppTest, AnInterruptBeforeARunBeginsEndsTheProcessWhereItIs) {
  App app = LineApp();
  app.ends_process = true;
  app.build = [](const AppOptions& options, std::vector<std::unique_ptr<AppProgram>>*) {
    raise(SIGINT);
    options.session.stop();
    return absl::InternalError("stop came back");
  };
  std::string program = "program", out = "--out=" + out_;
  char* arguments[] = {program.data(), out.data()};
  EXPECT_EXIT(exit(RunApp(app, 2, arguments) + 1), ::testing::ExitedWithCode(0), "");
  EXPECT_FALSE(fs::exists(out_));
}

// While data is read, and once the session has started; of a new run and of one that goes on.
TEST_F(AppTest, AnInterruptWhileARunBeginsLeavesItAsItWas) {
  const std::string log = out_ + "/log.jsonl", flags = out_ + "/options.txt";
  std::string before;
  for (const std::string& flag : {"--out=" + out_, "--resume=" + out_}) {
    for (const bool reading : {true, false}) {
      App app = LineApp();
      app.open_data = [&](const AppOptions& options) -> absl::StatusOr<AppData> {
        absl::StatusOr<AppData> data = LineApp().open_data(options);
        EXPECT_FALSE(options.session.stop());
        if (reading) raise(SIGTERM);
        EXPECT_EQ(options.session.stop(), reading);
        data->training = std::make_unique<Line>(3, reading ? 0 : SIGTERM);
        return data;
      };
      EXPECT_EQ(Run(app, {flag, "--steps=12", "--lr=0.25"}), 0) << error_;
      EXPECT_EQ(error_, "");
      EXPECT_THAT(printed_, ::testing::EndsWith("stopped before it began; nothing has been run\n"));
      if (before.empty()) {
        EXPECT_FALSE(fs::exists(out_));
        continue;
      }
      EXPECT_EQ(*ReadText(log, 1 << 20) + *ReadText(flags, 1 << 20), before);
      EXPECT_EQ(*ListDirectory(out_ + "/checkpoints"), std::vector<std::string>{"step-000008"});
    }
    if (!before.empty()) break;
    ASSERT_EQ(Run({"--out=" + out_}), 0) << error_;
    before = *ReadText(log, 1 << 20) + *ReadText(flags, 1 << 20);
  }
}

TEST_F(AppTest, AnInterruptWhileItEvaluatesSavesAndStops) {
  for (const std::string& flag : {"--out=" + out_, "--resume=" + out_}) {
    App app = LineApp();
    app.open_data = [](const AppOptions& options) {
      absl::StatusOr<AppData> data = LineApp().open_data(options);
      data->held_out = std::make_unique<Line>(3, 0, SIGINT);
      return data;
    };
    EXPECT_EQ(Run(app, {flag, "--batch=8"}), 0) << error_;
    EXPECT_THAT(printed_, HasSubstr("stopped; --resume="));
    EXPECT_THAT(printed_, ::testing::Not(HasSubstr("held-out loss")));
    EXPECT_EQ(*ListDirectory(out_ + "/checkpoints"), std::vector<std::string>{"step-000000"});
  }
  ASSERT_EQ(Run({"--resume=" + out_}), 0) << error_;
  EXPECT_THAT(Log(), HasSubstr("{\"step\":8,\"val_loss\":"));
}

// The paths can be written when the run begins, and no more when it has ended.
TEST_F(AppTest, ATraceThatCannotBeWrittenAtTheEndIsAnError) {
  const std::string trace = ::testing::TempDir() + "/late.json", page = trace + ".html";
  for (const bool of_page : {false, true}) {
    App app = LineApp();
    app.use = [&](Session*, const AppOptions&, const std::function<bool()>&) {
      const std::string& path = of_page ? page : trace;
      fs::remove(path);
      fs::create_directory(path);
      return absl::OkStatus();
    };
    EXPECT_EQ(Run(app, {"--out=" + out_, "--trace=" + trace, "--explain_html=" + page}), 1);
    const std::string what =
        of_page ? "explain_html: cannot open " + page : "trace: cannot write " + trace;
    EXPECT_THAT(error_, ::testing::EndsWith("line: " + what + ": Is a directory\n"));
    EXPECT_THAT(printed_, HasSubstr("checkpoint " + out_ + "/checkpoints/step-000008\n"));
    EXPECT_EQ(*ListDirectory(out_ + "/checkpoints"), std::vector<std::string>{"step-000008"});
    for (const std::string& path : {out_, trace, page}) fs::remove_all(path);
  }
}

TEST_F(AppTest, AResumeThatFailsChangesNothing) {
  ASSERT_EQ(Run({"--out=" + out_, "--save_every=4"}), 0) << error_;
  const std::string newest = out_ + "/checkpoints/step-000008";
  const std::string log = Log(), options = *ReadText(out_ + "/options.txt", 1 << 20);
  const auto expect_the_same = [&] {
    EXPECT_EQ(*ReadText(out_ + "/options.txt", 1 << 20), options);
    EXPECT_THAT(*ListDirectory(out_ + "/checkpoints"),
                ::testing::ElementsAre("step-000004", "step-000008"));
  };
  fs::resize_file(newest + "/tensors.safetensors", 100);  // it would be set aside
  EXPECT_EQ(Run({"--resume=" + out_, "--slope=4"}), 1);
  EXPECT_THAT(error_, HasSubstr("--change_data goes on all the same"));
  expect_the_same();
  EXPECT_EQ(Log(), log);
  fs::remove(out_ + "/log.jsonl");
  fs::create_directories(out_ + "/log.jsonl");
  EXPECT_EQ(Run({"--resume=" + out_, "--lr=0.25"}), 1);
  EXPECT_THAT(error_, HasSubstr("log.jsonl: cannot open"));
  expect_the_same();
}

TEST_F(AppTest, TheSameCommandGoesOnAndAnotherIsRefused) {
  ASSERT_EQ(Run({"--out=" + out_, "--save_every=4"}), 0) << error_;
  const std::string learned = printed_.substr(printed_.find("slope "), 11);
  fs::remove_all(out_ + "/checkpoints/step-000008");  // it was killed before
  ASSERT_EQ(Run({"--out=" + out_, "--save_every=4"}), 0) << error_;
  EXPECT_THAT(printed_, HasSubstr(learned));
  EXPECT_THAT(printed_, ::testing::Not(HasSubstr("step 0: held-out")));
  EXPECT_EQ(Run({"--out=" + out_, "--save_every=4", "--lr=0.25"}), 2);
  EXPECT_THAT(error_, HasSubstr("already holds a run, of other options (--lr=0.5); --resume="));
  ASSERT_EQ(Run({"--resume=" + out_, "--lr=0.25", "--steps=9"}), 0) << error_;
  EXPECT_THAT(printed_, HasSubstr("changed    since the run that goes on: --steps=9, was 8; "
                                  "--lr=0.25, was 0.5\n"));
}

// Killed before its first checkpoint a run leaves a log.
TEST_F(AppTest, ARunThatSavedNothingBeginsAnew) {
  fs::create_directories(out_);
  std::ofstream(out_ + "/log.jsonl") << "{\"step\":3,\"loss\":1}\n";
  ASSERT_EQ(Run({"--out=" + out_}), 0) << error_;
  EXPECT_THAT(error_, HasSubstr("begins anew; its log is kept as " + out_ + "/log.lost-1.jsonl"));
  EXPECT_EQ(*ReadText(out_ + "/log.lost-1.jsonl", 100), "{\"step\":3,\"loss\":1}\n");
  EXPECT_THAT(Log(), ::testing::StartsWith("{\"step\":0,"));
}

TEST_F(AppTest, AFolderThatIsMovedWhileItTrainsCostsItsCheckpointsAndIsNamed) {
  App app = LineApp();
  app.open_data = [this](const AppOptions& options) {
    absl::StatusOr<AppData> data = LineApp().open_data(options);
    // Which data it is, is asked when the session has started.
    data->held_out = std::make_unique<MovingLine>(out_);
    return data;
  };
  EXPECT_EQ(Run(app, {"--out=" + out_}), 1);
  EXPECT_THAT(printed_, HasSubstr("warning: no checkpoint of step 8: " + out_ +
                                  ": expected the folder in which the run began, which was moved"));
  EXPECT_THAT(error_, HasSubstr("the last checkpoint was not written: "));
  EXPECT_FALSE(fs::exists(out_ + "/checkpoints"));
}

TEST_F(AppTest, TheBestCheckpointStaysByAMetricThatThereIs) {
  ASSERT_EQ(Run({"--out=" + out_, "--save_every=2", "--keep=1", "--keep_best=loss"}), 0) << error_;
  EXPECT_THAT(printed_, HasSubstr("\nbest       " + out_ + "/checkpoints/step-00000"));
  EXPECT_EQ(Run({"--out=" + out_ + "2", "--keep_best=acuracy"}), 2);
  EXPECT_EQ(error_, "line: --keep_best: expected one of loss, size, got \"acuracy\"\n");
  App app = LineApp();
  app.open_data = [](const AppOptions& options) {
    absl::StatusOr<AppData> data = LineApp().open_data(options);
    data->held_out.reset();
    return data;
  };
  EXPECT_EQ(Run(app, {"--out=" + out_ + "2", "--keep_best=loss"}), 1);
  EXPECT_EQ(error_, "line: --keep_best=loss: expected held-out data, got none\n");
}

TEST_F(AppTest, DataMayBeSeenInEpochs) {
  for (const bool epochs : {false, true}) {
    std::vector<int64_t> seen;
    App app = LineApp();
    app.open_data = [&](const AppOptions&) -> absl::StatusOr<AppData> {
      AppData data;
      data.training = std::make_unique<SeenLine>(1, &seen);
      if (epochs) data.order = SampleOrder::kEpochs;
      return data;
    };
    ASSERT_EQ(Run(app, {"--out=" + out_ + (epochs ? "e" : "r"), "--batch=20", "--steps=10"}), 0)
        << error_;
    ASSERT_EQ(seen.size(), 200u);
    // 100 samples, twice or as they are drawn.
    std::map<int64_t, int> times;
    for (const int64_t sample : seen) ++times[sample];
    const bool all_twice =
        std::ranges::all_of(times, [](const auto& of) { return of.second == 2; });
    EXPECT_EQ(all_twice, epochs);
  }
}

TEST_F(AppTest, CodesAndLines) {
  EXPECT_EQ(Run({"--slop=3"}), 2);
  EXPECT_THAT(error_, HasSubstr("line: unknown flag --slop; did you mean --slope?\n"));
  EXPECT_EQ(Run({"--batch=65"}), 2);
  EXPECT_EQ(error_, "line: --batch: expected at most 64\n");
  EXPECT_EQ(Run({"--data=none"}), 1);
  EXPECT_THAT(error_, HasSubstr("none; bazel run //tools:dataset -- list names data that can be "
                                "fetched\n"));
  EXPECT_EQ(std::count(error_.begin(), error_.end(), '\n'), 1);
  App exact = LineApp();
  exact.open_data = [](const AppOptions&) -> absl::StatusOr<AppData> {
    return absl::NotFoundError("data: bazel run //tools:dataset -- fetch points gets it");
  };
  EXPECT_EQ(Run(exact, {"--out=" + out_}), 1);
  EXPECT_EQ(error_, "line: data: bazel run //tools:dataset -- fetch points gets it\n");
  EXPECT_EQ(Run({"--help"}), 0);
  EXPECT_THAT(printed_, HasSubstr("Learns a line.\n"));
  EXPECT_EQ(Run({"--explain", "--out=" + out_}), 0);
  EXPECT_THAT(printed_, HasSubstr("matmul"));
  EXPECT_FALSE(fs::exists(out_));
}

TEST(SameDataTest, WhatWasNotRecordedIsNotHeldToAnything) {
  const std::map<std::string, DataRecord> now = {{"training", {5, "aa"}}};
  EXPECT_TRUE(CheckSameData({}, now).ok());
  EXPECT_TRUE(CheckSameData(now, now).ok());
  EXPECT_FALSE(CheckSameData({{"training", {6, "aa"}}}, now).ok());
  EXPECT_FALSE(CheckSameData({{"training", {5, "ab"}}}, now).ok());
  EXPECT_THAT(std::string(CheckSameData({{"held-out", {5, "aa"}}}, now).message()),
              HasSubstr("got none"));
}

}  // namespace
}  // namespace sluice
