// The training loop: steps of a session's "train" program, evaluations, checkpoints, the log and
// the line that people watch. One thread, the session's. A model gives two functions; the rest is
// the same for all of them.
#ifndef SLUICE_FRAMEWORK_TRAIN_TRAINER_H_
#define SLUICE_FRAMEWORK_TRAIN_TRAINER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/base/stop.h"
#include "framework/checkpoint/checkpoint.h"
#include "framework/checkpoint/checkpoint_writer.h"
#include "framework/nn/learning_rate.h"
#include "framework/session/session.h"
#include "framework/train/metrics.h"
#include "framework/train/plot.h"
#include "framework/train/progress.h"
#include "framework/train/train_log.h"
#include "framework/train/variables.h"

namespace sluice {

struct TrainerOptions {
  LearningRateSchedule schedule;  // schedule.steps is the length of the run
  int64_t samples_per_step = 1;   // the batch
  Throughput throughput;          // what speed is told in
  double flops_per_sample = 0;    // with peak_flops gives the share of peak
  double peak_flops = 0;          // that was measured of this machine; 0: not known
  // Measures it again, while no step is under way: where steps are faster than the peak, the
  // machine was busy when it was measured. May be unset.
  std::function<absl::StatusOr<double>()> measure_peak = nullptr;
  int64_t eval_every = 0;            // steps; 0: only before the first and after the last
  bool evaluate_at_end = true;       // EvaluationKind::kAtEnd, after the last step
  int64_t save_every = 0;            // steps; 0: only after the last
  int64_t check_replicas_every = 0;  // steps; 0: never
  int64_t keep = 3;                  // checkpoints that stay
  // Of TrainerTask::metrics: the checkpoint with its best value stays, too. Each save is preceded
  // by an evaluation then. Empty: none.
  std::string keep_best = {};
  uint64_t seed = 1;                            // recorded in checkpoints
  std::string out;                              // folder: log.jsonl and checkpoints/ go there
  std::map<std::string, std::string> recorded;  // options for people, kept in checkpoints
  std::map<std::string, DataRecord> data;       // what is learned from, kept in checkpoints
  // Checkpoints are copied and written while training goes on, also those of several ranks. Where
  // memory for the copy is short, or where this is false, training waits.
  bool save_in_background = true;
  // Of a session of several ranks, which all train together. The first one has the losses, and
  // writes the log and what is told; all save, each its own part.
  int32_t rank = 0, ranks = 1;
  int32_t local_ranks = 1;  // that share this machine's memory
  // Whether `out` is still the folder that the run began in; asked before each save. May be empty.
  std::function<absl::Status()> check_folder = nullptr;
  FileFaults* faults = nullptr;  // a test's
};

enum class EvaluationKind {
  kDuringTraining,  // of a subset that is the same each time, as it takes time from training
  kAtEnd,           // after the last step, once the last checkpoint is written
};

// What is trained. The tensors that `feed` hands out are its own, and live until it is called
// again.
struct TrainerTask {
  // The inputs of the step that begins with this sample, but for "learning_rate" and "step".
  std::function<absl::Status(int64_t samples_seen, Feeds* feeds)> feed;
  // What held-out data say of the model as it is. Cancelled where `stop` has ended it, as all of
  // the data may take long. May be unset.
  std::function<absl::StatusOr<Evaluation>(EvaluationKind kind)> evaluate;
  std::vector<Metric> metrics = {{"loss", ""}};  // the first is the one that is plotted
  std::string held_out = "held-out data";        // what `evaluate` looks at
  // What the first line of the log also says, such as the digest of the data.
  std::vector<std::pair<std::string, std::string>> facts;
  // Asked between steps and in evaluations: save and stop. Of several ranks it must give all the
  // same answers (AgreedStop).
  Stop stop;
};

// What came of a run.
struct TrainingRecord {
  std::vector<PlotPoint> losses;       // by step
  std::vector<PlotPoint> evaluations;  // by step: the first metric of those during training
  int64_t subset_samples = 0;          // that each of them counts
  std::optional<Evaluation> newest_evaluation;  // at the end, that of EvaluationKind::kAtEnd
  int64_t steps_done = 0;
  bool stopped = false;    // by TrainerTask::stop
  std::string checkpoint;  // the last one that was written; empty: none
  std::string best;        // of TrainerOptions::keep_best; empty: none
  int64_t failed_saves = 0;
  // How long steps took, and for how long there were none because of saves, but for what is left of
  // the last one when the run is over.
  double step_seconds = 0, save_seconds = 0;
  int64_t saves = 0;
  absl::Status last_save;  // an error: training ended well, and its last checkpoint was not written
  std::string log;
};

// Whether any rank of the session wants to stop. All ranks ask at the same places; it waits for
// all. An error of the session, which its next call gives, is no wish to stop. The session must
// outlive it.
Stop AgreedStop(Session* session, Stop own);

class Trainer {
 public:
  // All must outlive it.
  Trainer(Session* session, TrainerOptions options, TrainerTask task, ProgressPrinter* printer);

  // Goes on from a checkpoint, of whatever mesh. Every variable is checked before one is written.
  // Cancelled where `stop` says so, which is asked as often as this rank has variables to load: not
  // by all ranks alike, so it must not be one that they agree on.
  absl::Status Restore(const Checkpoint& checkpoint, const Stop& stop = {});

  // Runs to the last step, or until asked to stop; both end with a checkpoint, and only then with
  // the evaluation at the end. An error of the session, and a loss, a figure of held-out data or a
  // variable that is not finite, end the run without one of that step: earlier ones stay. A disk
  // that takes no checkpoint, or no line of the log, costs a warning: the next save point tries
  // again.
  absl::StatusOr<TrainingRecord> Run();

 private:
  absl::Status RunToEnd();
  absl::Status RunSteps(int64_t end);
  absl::Status Begin(int64_t step);
  absl::Status Take();
  // What is due after the steps up to now, in this order: looks at replicas, an evaluation, a save.
  absl::Status DoWhatIsDue();
  bool IsDue(int64_t every) const { return every > 0 && record_.steps_done % every == 0; }
  absl::Status Evaluate(EvaluationKind kind);
  // An error where a figure of this step's evaluation is not finite.
  absl::Status CheckEvaluated();
  void MeasurePeakAgain();
  // Waits for the save before. An error only of the session or of what is to be saved; of the disk,
  // record_.last_save.
  absl::Status Save();
  absl::Status BeginSave();
  absl::Status FinishSave(bool wait);
  bool HasRoomForCopy() const;
  bool is_first() const { return options_.rank == 0; }
  // An error where what was to be saved is not finite.
  absl::Status Report(const CheckpointWriter::Result& result);
  void CheckLog(const absl::Status& written);
  // The first step after `step` at which an evaluation or a checkpoint is due, or the last.
  int64_t NextStop(int64_t step) const;

  Session* const session_;
  const TrainerOptions options_;
  const TrainerTask task_;
  ProgressPrinter* const printer_;
  TrainingRecord record_;
  Fetches fetches_;  // of the newest step
  std::optional<TrainLog> log_;
  CheckpointContents contents_;  // of every checkpoint, but for the meta; found at the first save
  SavedCopy copy_;               // what the writer writes
  CheckpointWriter writer_;
  double peak_flops_;
  bool beaten_ = false;     // the peak, by steps
  int peaks_measured_ = 0;  // again
  int64_t evaluated_ = -1;  // the step of record_.newest_evaluation
  int64_t saved_ = -1;      // the step of the newest save
  bool over_ = false;       // no save follows
  bool logged_facts_ = false;
  bool warned_of_log_ = false;
  std::deque<double> seconds_;  // of the newest steps
  double last_time_ = 0;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TRAIN_TRAINER_H_
