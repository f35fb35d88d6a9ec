#include "framework/train/trainer.h"

#include <cmath>
#include <filesystem>
#include <limits>

#include "absl/strings/str_cat.h"
#include "framework/train/trainer_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

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

}  // namespace
}  // namespace sluice
