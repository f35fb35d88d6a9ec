#include "framework/train/trainer.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <deque>
#include <filesystem>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/checkpoint/faulty_disk.h"
#include "framework/testing/fake_session.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

HostTensor Scalar(float value) {
  HostTensor tensor(DType::kF32, {});
  *tensor.data<float>() = value;
  return tensor;
}

// A session with one variable w: a step adds learning rate times its input x; the loss is w.
class ScriptedSession : public FakeSession {
 public:
  absl::Status Step(absl::string_view program, const Feeds& feeds) override {
    EXPECT_EQ(program, "train");
    EXPECT_LT(results_.size(), 2u) << "a third step in flight";
    most_in_flight_ = std::max(most_in_flight_, results_.size() + 1);
    ++step_;
    std::map<std::string, double> inputs;
    for (const auto& feed : feeds) {
      inputs[feed.first] =
          LoadElement(feed.second.tensor->dtype, feed.second.tensor->bytes.data(), 0);
    }
    EXPECT_EQ(inputs["step"], step_);
    w_ += static_cast<float>(inputs["learning_rate"] * inputs["x"]);
    if (step_ == nan_at_) w_ = std::numeric_limits<float>::quiet_NaN();
    results_.push_back({{"loss", Scalar(w_)}, {"grad_norm", Scalar(1)}});
    return absl::OkStatus();
  }
  absl::Status Next(Fetches* fetches) override {
    EXPECT_FALSE(results_.empty());
    if (step_ >= fail_at_) return absl::InternalError("h0/up: token 300 of 256");
    *fetches = std::move(results_.front());
    results_.pop_front();
    return absl::OkStatus();
  }
  std::vector<VariableInfo> variables() const override { return {{"w", DType::kF32, shape_, ""}}; }
  absl::StatusOr<HostTensor> Read(absl::string_view name) override {
    EXPECT_EQ(name, "w");
    EXPECT_TRUE(results_.empty()) << "read with steps in flight";
    return Scalar(w_);
  }
  absl::Status Write(absl::string_view, const HostTensor& value) override {
    w_ = *value.data<float>();
    return absl::OkStatus();
  }
  absl::StatusOr<std::vector<VariableBox>> boxes(absl::string_view) const override {
    return std::vector<VariableBox>{{WholeBox(shape_), true}};
  }
  void set_step(int64_t step) override { step_ = step; }

  float w_ = 1;
  int64_t step_ = 0, nan_at_ = -1, fail_at_ = 1 << 20;
  Shape shape_;
  size_t most_in_flight_ = 0;
  std::deque<Fetches> results_;
};

class TrainerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    out_ = ::testing::TempDir() + "/" +
           ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(out_);
    null_ = fopen("/dev/null", "w");
    options_.schedule = {.peak = 0.125, .warmup = 0, .steps = 10, .floor_fraction = 1};
    options_.samples_per_step = 4;
    options_.save_every = 4;
    options_.keep = 2;
    options_.out = out_;
    task_.feed = [this](int64_t samples_seen, Feeds* feeds) {
      x_ = Scalar(static_cast<float>(samples_seen));
      feeds->emplace_back("x", &x_);
      return absl::OkStatus();
    };
  }
  void TearDown() override { fclose(null_); }
  absl::StatusOr<TrainingRecord> Run(ScriptedSession* session, const std::string& resume = "") {
    ProgressPrinter printer(null_, false, 0, 1e9);
    Trainer trainer(session, options_, task_, &printer);
    if (!resume.empty()) {
      ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::Load(resume));
      RETURN_IF_ERROR(trainer.Restore(checkpoint));
    }
    return trainer.Run();
  }
  // The log without the speeds, which differ from run to run.
  std::string Log() {
    std::string text = *ReadText(out_ + "/log.jsonl", 1 << 20), out;
    size_t begin = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '\n') continue;
      const std::string line = text.substr(begin, i - begin);
      out += line.substr(0, line.find(",\"samples_per_second")) + "\n";
      begin = i + 1;
    }
    return out;
  }
  std::string out_;
  FILE* null_ = nullptr;
  HostTensor x_;
  TrainerOptions options_;
  TrainerTask task_;
};

TEST_F(TrainerTest, RunsEverythingTwoStepsAhead) {
  std::vector<EvaluationKind> evaluations;
  task_.evaluate = [&](EvaluationKind kind) -> absl::StatusOr<Evaluation> {
    evaluations.push_back(kind);
    return Evaluation{{2.5, 0.75}, kind == EvaluationKind::kAtEnd ? 300 : 128, 300};
  };
  task_.metrics = {{"loss", "nats"}, {"accuracy", ""}};
  task_.facts = {{"corpus", "abc"}};
  options_.eval_every = 5;
  options_.data = {{"training", {123, "0f"}}};
  ScriptedSession session;
  absl::StatusOr<TrainingRecord> record = Run(&session);
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->steps_done, 10);
  EXPECT_FALSE(record->stopped);
  EXPECT_EQ(session.most_in_flight_, 2u);
  EXPECT_EQ(session.w_, 1 + 0.125f * 4 * 45);  // samples 0, 4, .. 36
  constexpr EvaluationKind kDuring = EvaluationKind::kDuringTraining;
  EXPECT_THAT(evaluations,
              ::testing::ElementsAre(kDuring, kDuring, kDuring, EvaluationKind::kAtEnd));
  EXPECT_EQ(record->losses.size(), 10u);
  EXPECT_EQ(record->losses[2].y, 1 + 0.125 * 4 * 3);
  const std::string log = Log();
  EXPECT_THAT(log, HasSubstr("{\"step\":0,\"val_subset_loss\":2.5,\"val_subset_accuracy\":0.75,"
                             "\"val_subset_samples\":128,\"corpus\":\"abc\"}\n{\"step\":1,"));
  EXPECT_THAT(log, HasSubstr("{\"step\":3,\"loss\":2.5,\"grad_norm\":1,\"lr\":0.125"));
  EXPECT_THAT(log, HasSubstr("{\"step\":10,\"val_loss\":2.5,\"val_accuracy\":0.75,"
                             "\"val_samples\":300}\n"));
  // 4, 8 and 10 were saved; two are kept.
  EXPECT_EQ(ListDirectory(out_ + "/checkpoints")->size(), 2u);
  const CheckpointMeta meta = Checkpoint::Load(record->checkpoint)->meta();
  EXPECT_EQ(meta.samples, 40);
  EXPECT_EQ(meta.data, options_.data);
}

TEST_F(TrainerTest, SavingInTheBackgroundSavesTheSame) {
  ScriptedSession session;
  ASSERT_TRUE(Run(&session).ok());
  std::map<std::string, std::string> saved;
  const std::vector<std::string> names = {"step-000008", "step-000010"};
  for (const std::string& name : names) {
    saved[name] = *ReadText(out_ + "/checkpoints/" + name + "/tensors.safetensors", 1 << 20);
  }
  std::filesystem::remove_all(out_);
  options_.save_in_background = false;
  ScriptedSession again;
  ASSERT_TRUE(Run(&again).ok());
  EXPECT_EQ(*ListDirectory(out_ + "/checkpoints"), names);
  for (const std::string& name : names) {
    EXPECT_EQ(*ReadText(out_ + "/checkpoints/" + name + "/tensors.safetensors", 1 << 20),
              saved[name]);
  }
}

TEST_F(TrainerTest, ResumedRunIsTheSameRun) {
  ScriptedSession whole;
  ASSERT_TRUE(Run(&whole).ok());
  const std::string log = Log();
  const std::string middle = out_ + "/middle";
  std::filesystem::rename(out_ + "/checkpoints/step-000008", middle);
  ScriptedSession session;
  absl::StatusOr<TrainingRecord> record = Run(&session, middle);
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(session.w_, whole.w_);
  EXPECT_EQ(record->losses.size(), 2u);
  EXPECT_EQ(Log(), log);
}

TEST_F(TrainerTest, StopSavesAndResumeGoesOn) {
  int asked = 0;
  task_.stop = [&] { return ++asked > 3; };
  ScriptedSession session, whole;
  absl::StatusOr<TrainingRecord> record = Run(&session);
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_TRUE(record->stopped);
  EXPECT_LT(record->steps_done, 6);
  EXPECT_GE(record->steps_done, 3);
  task_.stop = nullptr;
  ScriptedSession resumed;
  record = Run(&resumed, record->checkpoint);
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->steps_done, 10);
  std::filesystem::remove_all(out_);
  ASSERT_TRUE(Run(&whole).ok());
  EXPECT_EQ(resumed.w_, whole.w_);
}

// The whole held-out data may take hours. Whatever ends that, what was learned is saved before.
TEST_F(TrainerTest, TheLastSaveComesBeforeTheEvaluationAtTheEnd) {
  const std::string last = out_ + "/checkpoints/step-000010";
  const auto subset = [](EvaluationKind kind) {
    return Evaluation{{2.5}, kind == EvaluationKind::kAtEnd ? 300 : 128, 300};
  };
  task_.evaluate = [&](EvaluationKind kind) -> absl::StatusOr<Evaluation> {
    if (kind != EvaluationKind::kAtEnd) return subset(kind);
    EXPECT_EQ(Checkpoint::Load(last)->Verify(), absl::OkStatus());
    return absl::DataLossError("held-out text: token 7 is damaged");
  };
  ScriptedSession session;
  EXPECT_EQ(Run(&session).status(), absl::DataLossError("held-out text: token 7 is damaged"));
  EXPECT_EQ(Checkpoint::Load(last)->meta().step, 10);
  std::filesystem::remove_all(out_);
  options_.evaluate_at_end = false;
  ScriptedSession skipping;
  EXPECT_TRUE(Run(&skipping).ok());
}

// What the subset has said of all samples already is not asked again.
TEST_F(TrainerTest, ASmallHeldOutSetIsEvaluatedOnceAtTheEnd) {
  int evaluations = 0;
  task_.evaluate = [&](EvaluationKind) -> absl::StatusOr<Evaluation> {
    ++evaluations;
    return Evaluation{{2.5}, 5, 5};
  };
  ScriptedSession session;
  EXPECT_TRUE(Run(&session).ok());
  EXPECT_EQ(evaluations, 2);  // before the first step and after the last
  EXPECT_THAT(Log(), HasSubstr("{\"step\":10,\"val_loss\":2.5,\"val_samples\":5}\n"));
}

TEST_F(TrainerTest, AHeldOutFigureThatIsNotFiniteIsNotSaved) {
  const double nan = std::nan("");
  task_.metrics = {{"loss", ""}, {.name = "auc", .may_be_undefined = true}};
  ScriptedSession session;
  task_.evaluate = [&](EvaluationKind) -> absl::StatusOr<Evaluation> {
    return Evaluation{{session.step_ == 8 ? nan : 1.5, nan}, 5, 5};
  };
  options_.eval_every = 4;
  EXPECT_EQ(Run(&session).status().message(),
            "step 8: expected a finite held-out loss, got nan; a lower --lr may help, --check_nan "
            "names the op");
  EXPECT_THAT(*ListDirectory(out_ + "/checkpoints"), ::testing::ElementsAre("step-000004"));
}

// The loss of this session is its only variable; here it is another one that grows without bounds.
TEST_F(TrainerTest, AStateThatIsNotFiniteEndsTheRunAndIsNotSaved) {
  class Overflowing : public ScriptedSession {
   public:
    absl::StatusOr<HostTensor> Read(absl::string_view) override {
      return Scalar(step_ < 8 ? 1 : std::numeric_limits<float>::infinity());
    }
  };
  for (const bool background : {true, false}) {
    std::filesystem::remove_all(out_);
    options_.save_in_background = background;
    options_.keep = 1;
    Overflowing session;
    EXPECT_EQ(Run(&session).status().message(),
              "step 8 was not saved: tensor w: expected finite values, got inf at []; " + out_ +
                  "/checkpoints/step-000004 stands; a lower --lr may help");
    EXPECT_THAT(*ListDirectory(out_ + "/checkpoints"), ::testing::ElementsAre("step-000004"));
  }
}

TEST_F(TrainerTest, KeepsTheBestCheckpoint) {
  task_.metrics = {{"loss", ""}, {.name = "accuracy", .larger_is_better = true}};
  ScriptedSession session;
  task_.evaluate = [&](EvaluationKind) -> absl::StatusOr<Evaluation> {
    const double loss = std::abs(static_cast<double>(session.step_) - 4.25);
    return Evaluation{{loss, 1 / loss}, 5, 300};
  };
  options_.save_every = 2;
  options_.keep = 1;
  for (const char* metric : {"loss", "accuracy"}) {
    std::filesystem::remove_all(out_);
    session.set_step(0);
    options_.keep_best = metric;
    const auto record = Run(&session);
    ASSERT_TRUE(record.ok()) << record.status();
    EXPECT_EQ(record->best, out_ + "/checkpoints/step-000004");
    EXPECT_THAT(*ListDirectory(out_ + "/checkpoints"),
                ::testing::ElementsAre("step-000004", "step-000010"));
  }
}

TEST_F(TrainerTest, HeldOutDataThatCannotBeReadCostsNoSave) {
  ScriptedSession session;
  task_.evaluate = [&](EvaluationKind) -> absl::StatusOr<Evaluation> {
    if (session.step_ == 8) return absl::DataLossError("b.tfrecord, record 5: damaged");
    return Evaluation{{1.5}, 5, 5};
  };
  options_.eval_every = 4;
  EXPECT_EQ(Run(&session).status().message(), "b.tfrecord, record 5: damaged");
  EXPECT_THAT(*ListDirectory(out_ + "/checkpoints"),
              ::testing::ElementsAre("step-000004", "step-000008"));
}

TEST_F(TrainerTest, AFigureAfterTheLastSaveThatIsNotFiniteNamesTheCheckpoint) {
  ScriptedSession session;
  task_.evaluate = [&](EvaluationKind kind) -> absl::StatusOr<Evaluation> {
    if (kind == EvaluationKind::kAtEnd) return Evaluation{{std::nan("")}, 9, 9};
    return Evaluation{{1.5}, 5, 9};
  };
  EXPECT_EQ(
      Run(&session).status().message(),
      absl::StrCat("step 10: expected a finite held-out loss, got nan of the weights in ", out_,
                   "/checkpoints/step-000010; a lower --lr may help, --check_nan names "
                   "the op"));
}

// Steps of a quarter of a millisecond reach a rate that no matmul had when the machine was busy.
TEST_F(TrainerTest, NoStepIsFasterThanThePeak) {
  options_.schedule.steps = 60;
  options_.flops_per_sample = 1e9;
  options_.peak_flops = 1;
  options_.save_every = 30;
  const struct {
    absl::StatusOr<double> measured;
    std::string told;
  } cases[] = {
      {1e30, "measured again: the machine was busy the first time"},
      {2, "GFLOP/s of a step: the machine is busy while they are measured"},
      {absl::ResourceExhaustedError("no thread"), "could not be measured again: no thread"},
  };
  for (const auto& [measured, told] : cases) {
    options_.measure_peak = [&measured = measured] { return measured; };
    std::filesystem::remove_all(out_);
    char* text = nullptr;
    size_t size = 0;
    FILE* const shown = open_memstream(&text, &size);
    ScriptedSession session;
    {
      ProgressPrinter printer(shown, false, 0, 0);
      Trainer trainer(&session, options_, task_, &printer);
      ASSERT_TRUE(trainer.Run().ok());
    }
    fclose(shown);
    const std::string lines(text, size);
    free(text);
    EXPECT_THAT(lines, HasSubstr("100% of peak"));
    EXPECT_THAT(lines, ::testing::Not(::testing::ContainsRegex("[1-9][0-9][1-9]% of peak")));
    EXPECT_THAT(lines, HasSubstr(told));
  }
}

TEST_F(TrainerTest, AnEvaluationThatIsStoppedIsFollowedByASave) {
  bool asked = false;
  task_.stop = [&] { return asked; };
  task_.evaluate = [&](EvaluationKind kind) -> absl::StatusOr<Evaluation> {
    asked = kind == EvaluationKind::kAtEnd;
    if (asked) return absl::CancelledError("stopped");
    return Evaluation{{2.5}, 128, 300};
  };
  ScriptedSession session;
  const absl::StatusOr<TrainingRecord> record = Run(&session);
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_TRUE(record->stopped);
  EXPECT_EQ(record->steps_done, 10);
  EXPECT_EQ(record->evaluations.size(), 2u);
  EXPECT_EQ(Checkpoint::Load(record->checkpoint)->meta().step, 10);
  task_.stop = nullptr;  // nobody has asked for it
  ScriptedSession other;
  EXPECT_TRUE(absl::IsCancelled(Run(&other).status()));
}

TEST_F(TrainerTest, TornOrDivergedStateIsNotSaved) {
  ScriptedSession diverged;
  diverged.nan_at_ = 6;
  EXPECT_THAT(std::string(Run(&diverged).status().message()),
              HasSubstr("step 6: expected a finite"));
  EXPECT_THAT(*ListDirectory(out_ + "/checkpoints"), ::testing::ElementsAre("step-000004"));
  ScriptedSession failed;
  failed.fail_at_ = 3;
  EXPECT_EQ(Run(&failed).status(), absl::InternalError("h0/up: token 300 of 256"));
  EXPECT_THAT(*ListDirectory(out_ + "/checkpoints"), ::testing::ElementsAre("step-000004"));
}

TEST_F(TrainerTest, CheckpointOfAnotherModelIsRefusedBeforeAnythingIsWritten) {
  ScriptedSession session;
  ASSERT_TRUE(Run(&session).ok());
  const std::string checkpoint = out_ + "/checkpoints/step-000010";
  ScriptedSession other;
  other.shape_ = {2};
  EXPECT_EQ(Run(&other, checkpoint).status().message(),
            "checkpoint: tensor \"w\": expected f32[2], got f32[]");
  EXPECT_EQ(other.w_, 1);
  options_.samples_per_step = 8;
  EXPECT_EQ(Run(&session, checkpoint).status().message(),
            "checkpoint: it has seen 40 samples in 10 steps; expected a batch of 4, got 8");
}

TEST_F(TrainerTest, FinishedRunTakesNoStep) {
  ScriptedSession session, again;
  ASSERT_TRUE(Run(&session).ok());
  absl::StatusOr<TrainingRecord> record = Run(&again, out_ + "/checkpoints/step-000010");
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_TRUE(record->losses.empty());
  EXPECT_EQ(again.w_, session.w_);
}

TEST_F(TrainerTest, UnwritableFolderIsAnError) {
  options_.out = "/proc/none";
  ScriptedSession session;
  EXPECT_THAT(std::string(Run(&session).status().message()), HasSubstr("/proc/none"));
}

// Runs of ten steps that save at 3, 6, 9 and 10, on a disk that fails at each call in turn.
class TrainerDiskTest : public TrainerTest {
 protected:
  void SetUp() override {
    TrainerTest::SetUp();
    // In memory if that is to be had: hundreds of runs sync a real disk thousands of times.
    root_ = (access("/dev/shm", W_OK) == 0 ? "/dev/shm/" : ::testing::TempDir()) + "train_XXXXXX";
    ASSERT_NE(mkdtemp(root_.data()), nullptr);
    out_ = options_.out = root_ + "/run";
    options_.save_every = 3;
    ScriptedSession whole;
    ASSERT_TRUE(Run(&whole).ok());
    log_ = Log();
    w_ = whole.w_;
  }
  void TearDown() override {
    std::filesystem::remove_all(root_);
    TrainerTest::TearDown();
  }
  // What the run told, in `told_`.
  absl::StatusOr<TrainingRecord> Run(ScriptedSession* session, FileFaults* disk) {
    options_.faults = disk;
    char* text = nullptr;
    size_t size = 0;
    FILE* const null = std::exchange(null_, open_memstream(&text, &size));
    absl::StatusOr<TrainingRecord> record = TrainerTest::Run(session);
    fclose(std::exchange(null_, null));
    told_.assign(text, size);
    free(text);
    options_.faults = nullptr;
    return record;
  }
  absl::StatusOr<TrainingRecord> Run(ScriptedSession* session) { return Run(session, nullptr); }
  // Goes on as --resume does, and ends where the undisturbed run did.
  void ExpectResumedRunIsTheWholeRun(bool whole_log) {
    std::vector<DamagedCheckpoint> damaged;
    const auto latest = LatestGoodCheckpoint(out_ + "/checkpoints", &damaged);
    EXPECT_TRUE(damaged.empty());
    ScriptedSession session;
    const auto record = TrainerTest::Run(&session, latest.ok() ? *latest : "");
    ASSERT_TRUE(record.ok()) << record.status();
    EXPECT_TRUE(record->last_save.ok());
    EXPECT_EQ(session.w_, w_);
    EXPECT_EQ(whole_log ? Log() : log_, log_);
    const std::vector<std::string> names = *ListDirectory(out_ + "/checkpoints");
    EXPECT_LE(names.size(), 2u);  // and nothing unfinished
    EXPECT_THAT(names, ::testing::Each(::testing::MatchesRegex("step-[0-9]*")));
    EXPECT_EQ(names.back(), "step-000010");
  }
  std::string root_, log_, told_;
  float w_ = 0;
};

TEST_F(TrainerDiskTest, ARunKilledAtAnyCallGoesOn) {
  int points = 0;
  for (const DiskFault fault : {DiskFault::kKill, DiskFault::kKillTorn}) {
    for (int64_t n = 0;; ++n, ++points) {
      SCOPED_TRACE(n);
      std::filesystem::remove_all(out_);
      const pid_t child = fork();
      if (child == 0) {
        FaultyDisk disk(fault, n);
        ScriptedSession session;
        _exit(Run(&session, &disk).ok() ? 0 : 1);
      }
      int status = 0;
      ASSERT_EQ(waitpid(child, &status, 0), child);
      ExpectResumedRunIsTheWholeRun(/*whole_log=*/true);
      ASSERT_FALSE(HasFailure());
      if (WIFEXITED(status)) {
        EXPECT_EQ(WEXITSTATUS(status), 0);
        break;
      }
      ASSERT_EQ(WTERMSIG(status), SIGKILL);
    }
  }
  EXPECT_GT(points, 150);
  printf("killed at %d calls\n", points);
}

TEST_F(TrainerDiskTest, ACallThatFailsCostsAWarningAndNotTheRun) {
  int points = 0, lost = 0;
  for (const DiskFault fault : {DiskFault::kFullOnce, DiskFault::kErrorOnce, DiskFault::kFull}) {
    for (int64_t n = 0;; ++n, ++points) {
      SCOPED_TRACE(n);
      std::filesystem::remove_all(out_);
      ScriptedSession session;
      FaultyDisk disk(fault, n);
      const auto record = Run(&session, &disk);
      if (!disk.struck()) break;
      if (record.ok()) {
        EXPECT_EQ(record->steps_done, 10);
        EXPECT_EQ(session.w_, w_);
        EXPECT_EQ(told_.find("warning: ") != std::string::npos, !disk.failed_path().empty());
        EXPECT_THAT(told_, HasSubstr(disk.failed_path()));
        if (!record->last_save.ok()) ++lost;
      } else {
        // A folder that takes nothing at all is told before the first step.
        EXPECT_EQ(session.step_, 0);
        EXPECT_THAT(std::string(record.status().message()), HasSubstr(disk.failed_path()));
      }
      ExpectResumedRunIsTheWholeRun(told_.find("lines of the log") == std::string::npos);
      ASSERT_FALSE(HasFailure());
    }
  }
  EXPECT_GT(points, 200);
  EXPECT_GT(lost, 30);
  printf("failed at %d calls, %d lost the last checkpoint\n", points, lost);
}

// A disk without room for checkpoints.
class NoCheckpoints : public FileFaults {
 public:
  int Before(FileOperation* operation) override {
    return absl::StrContains(operation->path, "/step-") ? ENOSPC : 0;
  }
};

// As `ulimit -f` has it: nothing is wrong with the state, so that the run goes on.
TEST_F(TrainerDiskTest, ALimitOnTheSizeOfFilesIsAsAFullDisk) {
  class SmallFiles : public FileFaults {
    int Before(FileOperation* operation) override {
      return absl::StrContains(operation->path, "/step-") ? EFBIG : 0;
    }
  };
  std::filesystem::remove_all(out_);
  SmallFiles disk;
  ScriptedSession session;
  const auto record = Run(&session, &disk);
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->steps_done, 10);
  EXPECT_THAT(told_, HasSubstr(": File too large; there is no earlier one; the next try is at"));
}

TEST_F(TrainerDiskTest, ASaveThatFailedIsToldOfARunThatFails) {
  std::filesystem::remove_all(out_);
  NoCheckpoints disk;
  ScriptedSession session;
  session.nan_at_ = 5;
  EXPECT_THAT(std::string(Run(&session, &disk).status().message()), HasSubstr("step 5: expected"));
  EXPECT_THAT(told_, HasSubstr("warning: no checkpoint of step 3: "));
}

TEST_F(TrainerDiskTest, AStopIsTheNextTry) {
  std::filesystem::remove_all(out_);
  options_.save_in_background = false;  // so that each save is told before the next
  NoCheckpoints disk;
  ScriptedSession session;
  int asked = 0;
  task_.stop = [&asked] { return ++asked > 4; };
  const auto record = Run(&session, &disk);
  task_.stop = nullptr;
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_GT(record->steps_done, 3);
  EXPECT_THAT(told_, HasSubstr("no earlier one; the next try is at step 6\n"));
  EXPECT_THAT(told_, HasSubstr("no earlier one; this was the last one\n"));
}

TEST_F(TrainerDiskTest, WarningsSayWhatStandsAndWhatComes) {
  options_.save_in_background = false;  // so that calls come in one order
  std::filesystem::remove_all(out_);
  FaultyDisk counting;
  options_.schedule.steps = 3;
  {
    ScriptedSession session;
    ASSERT_TRUE(Run(&session, &counting).ok());
  }
  const int64_t calls_until_3 = counting.calls();
  options_.schedule.steps = 10;
  std::filesystem::remove_all(out_);
  FaultyDisk disk(DiskFault::kFull, calls_until_3);
  ScriptedSession session;
  const auto record = Run(&session, &disk);
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->failed_saves, 3);
  EXPECT_EQ(record->checkpoint, out_ + "/checkpoints/step-000003");
  EXPECT_EQ(record->last_save.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(told_, HasSubstr("warning: no checkpoint of step 6: " + out_ +
                               "/checkpoints/step-000006.tmp"));
  EXPECT_THAT(told_, HasSubstr(": No space left on device; " + out_ +
                               "/checkpoints/step-000003 stands; the next try is at step 9\n"));
  EXPECT_THAT(told_, HasSubstr("stands; this was the last one\n"));
  EXPECT_THAT(told_, HasSubstr("warning: lines of the log will be missing: " + out_ + "/log"));
}

}  // namespace
}  // namespace sluice
