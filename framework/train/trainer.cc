#include "framework/train/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/memory.h"
#include "framework/base/status.h"
#include "framework/checkpoint/file.h"
#include "framework/train/evaluation.h"
#include "framework/train/variables.h"

namespace sluice {
namespace {

constexpr size_t kSpeedWindow = 16;  // steps whose mean time gives tokens/s

// How often a peak that steps beat is measured again, half a second each time.
constexpr int kMostPeaks = 3;

BestBy BestOf(const std::string& name, absl::Span<const Metric> metrics) {
  for (const Metric& metric : metrics) {
    if (metric.name == name) return {name, metric.larger_is_better};
  }
  return {};
}

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

Stop AgreedStop(Session* session, Stop own) {
  return [session, own = std::move(own)] {
    const absl::Status agreed =
        session->Agree(own && own() ? "stop" : "", [](absl::Span<const std::string> ranks) {
          const bool stop = std::any_of(ranks.begin(), ranks.end(),
                                        [](const std::string& rank) { return !rank.empty(); });
          return stop ? absl::CancelledError("a rank was asked to stop") : absl::OkStatus();
        });
    return absl::IsCancelled(agreed);
  };
}

Trainer::Trainer(Session* session, TrainerOptions options, TrainerTask task,
                 ProgressPrinter* printer)
    : session_(session),
      options_(std::move(options)),
      task_(std::move(task)),
      printer_(printer),
      writer_({options_.out + "/checkpoints",
               options_.keep,
               BestOf(options_.keep_best, task_.metrics),
               {options_.rank, options_.ranks},
               [session](const auto& mine, const auto& judge) {
                 return session->AgreeOnSave(mine, judge);
               },
               options_.check_folder,
               options_.faults}),
      peak_flops_(options_.peak_flops) {}

absl::Status Trainer::Restore(const Checkpoint& checkpoint, const Stop& stop) {
  RETURN_IF_ERROR(LoadVariables(checkpoint, session_, stop));
  const CheckpointMeta& meta = checkpoint.meta();
  if (meta.samples != meta.step * options_.samples_per_step) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "checkpoint: it has seen %d samples in %d steps; expected a batch of %d, got %d",
        meta.samples, meta.step, meta.step == 0 ? 0 : meta.samples / meta.step,
        options_.samples_per_step));
  }
  session_->set_step(meta.step);
  record_.steps_done = meta.step;
  return absl::OkStatus();
}

int64_t Trainer::NextStop(int64_t step) const {
  int64_t next = options_.schedule.steps;
  for (int64_t every : {options_.eval_every, options_.save_every, options_.check_replicas_every}) {
    if (every > 0) next = std::min(next, (step / every + 1) * every);
  }
  return next;
}

absl::StatusOr<TrainingRecord> Trainer::Run() {
  record_.log = options_.out + "/log.jsonl";
  if (is_first()) {
    RETURN_IF_ERROR(CreateDirectories(options_.out, options_.faults));
    ASSIGN_OR_RETURN(TrainLog log,
                     TrainLog::Open(record_.log, record_.steps_done, options_.faults));
    log_.emplace(std::move(log));
  }
  absl::Status status = RunToEnd();
  over_ = true;
  status.Update(FinishSave(/*wait=*/true));
  RETURN_IF_ERROR(status);
  if (is_first() && !options_.keep_best.empty()) {
    const absl::StatusOr<std::string> best =
        BestCheckpoint(options_.out + "/checkpoints", record_.steps_done,
                       BestOf(options_.keep_best, task_.metrics));
    if (best.ok()) record_.best = *best;
  }
  return record_;
}

absl::Status Trainer::RunToEnd() {
  RETURN_IF_ERROR(Evaluate(EvaluationKind::kDuringTraining));
  RETURN_IF_ERROR(CheckEvaluated());
  while (record_.steps_done < options_.schedule.steps && !record_.stopped) {
    RETURN_IF_ERROR(RunSteps(NextStop(record_.steps_done)));
    MeasurePeakAgain();
    RETURN_IF_ERROR(DoWhatIsDue());
  }
  if (saved_ != record_.steps_done) RETURN_IF_ERROR(Save());
  if (record_.stopped || !options_.evaluate_at_end) return absl::OkStatus();
  // What was learned is on disk before: to judge all held-out data may take hours, in which data
  // may turn out to be damaged and processes may be killed.
  RETURN_IF_ERROR(FinishSave(/*wait=*/true));
  RETURN_IF_ERROR(Evaluate(EvaluationKind::kAtEnd));
  return CheckEvaluated();
}

absl::Status Trainer::DoWhatIsDue() {
  const bool ends = record_.steps_done == options_.schedule.steps;
  if (IsDue(options_.check_replicas_every) || (ends && options_.check_replicas_every > 0)) {
    RETURN_IF_ERROR(
        AddContext(session_->CheckReplicas(), absl::StrCat("step ", record_.steps_done)));
  }
  const bool saves = IsDue(options_.save_every) || ends;
  const bool evaluates = IsDue(options_.eval_every) || ends;
  if (!record_.stopped && (evaluates || (saves && !options_.keep_best.empty()))) {
    const absl::Status evaluated = Evaluate(EvaluationKind::kDuringTraining);
    // Held-out data that cannot be read costs no save. Of several ranks the others wait in the
    // evaluation for the one that could not, and have no part in a save.
    if (!evaluated.ok() && saves && options_.ranks == 1) Save().IgnoreError();
    RETURN_IF_ERROR(evaluated);
    RETURN_IF_ERROR(CheckEvaluated());
  }
  return saves ? Save() : absl::OkStatus();
}

void Trainer::MeasurePeakAgain() {
  if (!beaten_ || peaks_measured_ == kMostPeaks || !options_.measure_peak) return;
  beaten_ = false;
  ++peaks_measured_;
  const absl::StatusOr<double> measured = options_.measure_peak();
  if (!measured.ok()) {
    printer_->Print(absl::StrCat("warning: what matmuls reach could not be measured again: ",
                                 measured.status().message()));
  } else if (*measured > peak_flops_) {
    peak_flops_ = *measured;
    printer_->Print(absl::StrFormat(
        "matmuls reach %.0f GFLOP/s, measured again: the machine was busy the first time",
        peak_flops_ / 1e9));
  } else {
    printer_->Print(absl::StrFormat(
        "matmuls reach at least the %.0f GFLOP/s of a step: the machine is busy while they are "
        "measured",
        peak_flops_ / 1e9));
  }
}

// Keeps as many steps in flight as a session holds, so that a device never waits for this loop.
absl::Status Trainer::RunSteps(int64_t end) {
  int64_t begun = record_.steps_done;
  last_time_ = Now();
  while (record_.steps_done < end) {
    if (task_.stop && task_.stop()) {
      record_.stopped = true;
      end = begun;  // what has begun is taken
      if (record_.steps_done == end) break;
    }
    for (; begun < end && begun < record_.steps_done + Session::kStepsAhead; ++begun) {
      RETURN_IF_ERROR(Begin(begun));
    }
    RETURN_IF_ERROR(Take());
    RETURN_IF_ERROR(FinishSave(/*wait=*/false));
  }
  return absl::OkStatus();
}

absl::Status Trainer::Begin(int64_t step) {
  HostTensor learning_rate(DType::kF32, {}), count(DType::kI32, {});
  *learning_rate.data<float>() = static_cast<float>(LearningRate(options_.schedule, step));
  *count.data<int32_t>() = static_cast<int32_t>(step + 1);
  Feeds feeds;
  RETURN_IF_ERROR(task_.feed(step * options_.samples_per_step, &feeds));
  feeds.emplace_back("learning_rate", &learning_rate);
  feeds.emplace_back("step", &count);
  return session_->Step("train", feeds);
}

absl::Status Trainer::Take() {
  RETURN_IF_ERROR(session_->Next(&fetches_));
  const double now = Now();
  seconds_.push_back(now - last_time_);
  record_.step_seconds += now - last_time_;
  last_time_ = now;
  if (seconds_.size() > kSpeedWindow) seconds_.pop_front();
  const double mean =
      std::accumulate(seconds_.begin(), seconds_.end(), 0.0) / static_cast<double>(seconds_.size());
  const int64_t step = ++record_.steps_done;
  if (!is_first()) return absl::OkStatus();
  Progress progress;
  progress.step = step;
  progress.steps = options_.schedule.steps;
  ASSIGN_OR_RETURN(progress.loss, FetchedScalar(fetches_, "loss"));
  ASSIGN_OR_RETURN(progress.gradient_norm, FetchedScalar(fetches_, "grad_norm"));
  progress.learning_rate = LearningRate(options_.schedule, step - 1);
  const double samples_per_second = static_cast<double>(options_.samples_per_step) / mean;
  progress.per_second = samples_per_second * options_.throughput.per_sample;
  progress.unit = options_.throughput.unit;
  if (peak_flops_ > 0) {
    const double reached = options_.flops_per_sample * samples_per_second;
    // A few steps may seem faster than they are: results of steps that overlap come in bursts.
    if (reached > peak_flops_ && seconds_.size() == kSpeedWindow) {
      peak_flops_ = reached;
      beaten_ = true;
    }
    progress.utilization = std::min(1.0, reached / peak_flops_);
  }
  progress.seconds_left = mean * static_cast<double>(progress.steps - step);
  CheckLog(log_->Step(step, progress.loss, progress.gradient_norm, progress.learning_rate,
                      progress.unit, progress.per_second));
  record_.losses.push_back({static_cast<double>(step), progress.loss});
  printer_->Update(progress, now);
  if (std::isfinite(progress.loss) && std::isfinite(progress.gradient_norm)) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrFormat(
      "step %d: expected a finite loss and gradient norm, got %g and %g; a lower --lr may help, "
      "--check_nan names the op",
      step, progress.loss, progress.gradient_norm));
}

absl::Status Trainer::Evaluate(EvaluationKind kind) {
  if (!task_.evaluate) return absl::OkStatus();
  const bool at_end = kind == EvaluationKind::kAtEnd;
  const int64_t step = record_.steps_done;
  // It would say the same again.
  if (at_end && evaluated_ == step && record_.newest_evaluation->is_whole()) {
    return absl::OkStatus();
  }
  absl::StatusOr<Evaluation> evaluated = task_.evaluate(kind);
  if (absl::IsCancelled(evaluated.status()) && task_.stop && task_.stop()) {
    record_.stopped = true;
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const Evaluation evaluation, std::move(evaluated));
  record_.newest_evaluation = evaluation;
  evaluated_ = step;
  if (!is_first()) return absl::OkStatus();
  CheckLog(log_->Evaluation(step, task_.metrics, evaluation, at_end,
                            logged_facts_ ? decltype(task_.facts)() : task_.facts));
  logged_facts_ = true;
  if (!at_end) {
    record_.evaluations.push_back({static_cast<double>(step), evaluation.values[0]});
    record_.subset_samples = evaluation.samples;
  }
  printer_->Print(
      absl::StrFormat("step %d: held-out %s", step, EvaluationText(task_.metrics, evaluation)));
  return absl::OkStatus();
}

// A figure that is not finite tells of weights that are not worth keeping, though the loss of
// training may still be.
absl::Status Trainer::CheckEvaluated() {
  if (evaluated_ != record_.steps_done || !is_first()) return absl::OkStatus();
  for (size_t i = 0; i < task_.metrics.size(); ++i) {
    const double value = record_.newest_evaluation->values[i];
    if (std::isfinite(value) || task_.metrics[i].may_be_undefined) continue;
    const bool saved = saved_ == evaluated_ && !record_.checkpoint.empty();
    return absl::FailedPreconditionError(absl::StrFormat(
        "step %d: expected a finite held-out %s, got %g%s; a lower --lr may help, --check_nan "
        "names the op",
        evaluated_, task_.metrics[i].name, value,
        saved ? absl::StrCat(" of the weights in ", record_.checkpoint) : ""));
  }
  return absl::OkStatus();
}

absl::Status Trainer::Save() {
  const double begin = Now();
  saved_ = record_.steps_done;
  const absl::Status status = BeginSave();
  record_.save_seconds += Now() - begin;
  ++record_.saves;
  return status;
}

absl::Status Trainer::BeginSave() {
  RETURN_IF_ERROR(FinishSave(/*wait=*/true));
  if (contents_.tensors.empty()) {  // else they are those of the save before
    ASSIGN_OR_RETURN(contents_, ContentsToSave(*session_, options_.ranks));
  }
  CheckpointContents contents = contents_;
  contents.meta.step = record_.steps_done;
  contents.meta.seed = options_.seed;
  contents.meta.samples = record_.steps_done * options_.samples_per_step;
  contents.meta.options = options_.recorded;
  contents.meta.data = options_.data;
  if (evaluated_ == record_.steps_done) {
    const std::vector<double>& values = record_.newest_evaluation->values;
    for (size_t i = 0; i < values.size(); ++i) {
      if (std::isfinite(values[i])) contents.meta.evaluation[task_.metrics[i].name] = values[i];
    }
  }
  if (!options_.save_in_background || !HasRoomForCopy()) {
    const BoxSource source = ValuesToSave(session_, options_.ranks);
    absl::Status session_error;
    const CheckpointWriter::Result result = writer_.Write(contents, [&](const BoxEntry& entry) {
      absl::StatusOr<TensorValue> value = source(entry);
      if (!value.ok()) session_error = value.status();
      return value;
    });
    RETURN_IF_ERROR(session_error);
    return Report(result);
  }
  if (!copy_.has_memory()) RETURN_IF_ERROR(copy_.Prepare(contents, session_));
  RETURN_IF_ERROR(session_->BeginSnapshot());
  writer_.Begin(std::move(contents), [this] {
    session_->FinishSnapshot();
    return copy_.Values();
  });
  return absl::OkStatus();
}

// Where the ranks of this machine each have a copy as large as this one's, half of what is free
// stays free. Another rank may decide otherwise: whether it waits is its own affair.
bool Trainer::HasRoomForCopy() const {
  if (copy_.has_memory()) return true;
  return SavedCopy::BytesFor(contents_) <= ReadMemoryLimits().available / 2 / options_.local_ranks;
}

absl::Status Trainer::FinishSave(bool wait) {
  const std::optional<CheckpointWriter::Result> result = writer_.Take(wait);
  return result ? Report(*result) : absl::OkStatus();
}

absl::Status Trainer::Report(const CheckpointWriter::Result& result) {
  if (result.saved.ok()) record_.checkpoint = *result.saved;
  const absl::StatusOr<std::string> stands = LatestCheckpoint(options_.out + "/checkpoints");
  const std::string earlier = stands.ok() ? *stands + " stands" : "there is no earlier one";
  if (absl::IsOutOfRange(result.saved.status())) {
    return absl::FailedPreconditionError(
        absl::StrCat("step ", result.step, " was not saved: ", result.saved.status().message(),
                     "; ", earlier, "; a lower --lr may help"));
  }
  if (!is_first()) return absl::OkStatus();  // one rank tells, and ends with the error
  record_.last_save = result.saved.status();
  if (result.saved.ok()) {
    if (!result.pruned.ok()) {
      printer_->Print(absl::StrCat("warning: older checkpoints stay: ", result.pruned.message()));
    }
    return absl::OkStatus();
  }
  ++record_.failed_saves;
  const int64_t step = result.step, steps = options_.schedule.steps;
  const bool last = over_ || !session_->status().ok() || step == steps ||
                    (record_.stopped && step == record_.steps_done);
  std::string next = "this was the last one";
  if (!last) {
    const int64_t every = options_.save_every;
    int64_t at = every > 0 ? std::min(steps, (step / every + 1) * every) : steps;
    if (record_.stopped) at = record_.steps_done;
    next = absl::StrCat("the next try is at step ", at);
  }
  printer_->Print(absl::StrCat("warning: no checkpoint of step ", step, ": ",
                               result.saved.status().message(), "; ", earlier, "; ", next));
  return absl::OkStatus();
}

void Trainer::CheckLog(const absl::Status& written) {
  if (written.ok() || warned_of_log_) return;
  warned_of_log_ = true;
  printer_->Print(absl::StrCat("warning: lines of the log will be missing: ", written.message()));
}

}  // namespace sluice
