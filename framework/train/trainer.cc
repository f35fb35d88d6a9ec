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
               {options_.rank, options_.ranks},
               [session](const auto& mine, const auto& judge) {
                 return session->AgreeOnSave(mine, judge);
               },
               options_.faults}) {}

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
  const absl::Status status = RunToEnd();
  over_ = true;
  if (const auto result = writer_.Take(/*wait=*/true)) Report(*result);
  RETURN_IF_ERROR(status);
  return record_;
}

// Evaluates, steps and saves; the last save may still be under way.
absl::Status Trainer::RunToEnd() {
  const int64_t steps = options_.schedule.steps;
  RETURN_IF_ERROR(Evaluate(/*whole=*/record_.steps_done >= steps));
  int64_t saved = -1;
  while (record_.steps_done < steps && !record_.stopped) {
    RETURN_IF_ERROR(RunSteps(NextStop(record_.steps_done)));
    const int64_t done = record_.steps_done;
    const int64_t check_every = options_.check_replicas_every;
    // Before a save: what is wrong is not kept.
    if (check_every > 0 && (done == steps || done % check_every == 0)) {
      RETURN_IF_ERROR(AddContext(session_->CheckReplicas(), absl::StrCat("step ", done)));
    }
    if (done == steps || (options_.eval_every > 0 && done % options_.eval_every == 0)) {
      RETURN_IF_ERROR(Evaluate(/*whole=*/done == steps));
    }
    if (options_.save_every > 0 && done % options_.save_every == 0) {
      RETURN_IF_ERROR(Save());
      saved = done;
    }
  }
  if (saved != record_.steps_done) RETURN_IF_ERROR(Save());
  return absl::OkStatus();
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
    if (const auto result = writer_.Take(/*wait=*/false)) Report(*result);
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
  if (options_.peak_flops > 0) {
    progress.utilization = options_.flops_per_sample * samples_per_second / options_.peak_flops;
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

absl::Status Trainer::Evaluate(bool whole) {
  if (!task_.evaluate) return absl::OkStatus();
  const absl::StatusOr<std::vector<double>> evaluated = task_.evaluate(whole);
  if (absl::IsCancelled(evaluated.status()) && task_.stop && task_.stop()) {
    record_.stopped = true;
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const std::vector<double> values, evaluated);
  if (!is_first()) return absl::OkStatus();
  const int64_t step = record_.steps_done;
  const bool first = record_.evaluations.empty();
  CheckLog(
      log_->Evaluation(step, task_.metrics, values, first ? task_.facts : decltype(task_.facts)()));
  record_.evaluations.push_back({static_cast<double>(step), values[0]});
  record_.last_evaluation = values;
  std::string line = absl::StrFormat("step %d: held-out", step);
  for (size_t i = 0; i < values.size(); ++i) {
    absl::StrAppendFormat(&line, "%s %s %.4f", i == 0 ? "" : ",", task_.metrics[i].name, values[i]);
  }
  printer_->Print(line + (whole ? " (the whole " + task_.held_out + ")" : ""));
  return absl::OkStatus();
}

absl::Status Trainer::Save() {
  const double begin = Now();
  const absl::Status status = BeginSave();
  record_.save_seconds += Now() - begin;
  ++record_.saves;
  return status;
}

absl::Status Trainer::BeginSave() {
  if (const auto before = writer_.Take(/*wait=*/true)) Report(*before);
  if (contents_.tensors.empty()) {  // else they are those of the save before
    ASSIGN_OR_RETURN(contents_, ContentsToSave(*session_, options_.ranks));
  }
  CheckpointContents contents = contents_;
  contents.meta.step = record_.steps_done;
  contents.meta.seed = options_.seed;
  contents.meta.samples = record_.steps_done * options_.samples_per_step;
  contents.meta.options = options_.recorded;
  contents.meta.data = options_.data;
  if (!options_.save_in_background || !HasRoomForCopy()) {
    const BoxSource source = ValuesToSave(session_, options_.ranks);
    absl::Status session_error;
    const CheckpointWriter::Result result = writer_.Write(contents, [&](const BoxEntry& entry) {
      absl::StatusOr<TensorValue> value = source(entry);
      if (!value.ok()) session_error = value.status();
      return value;
    });
    if (session_error.ok()) Report(result);
    return session_error;
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

void Trainer::Report(const CheckpointWriter::Result& result) {
  if (result.saved.ok()) record_.checkpoint = *result.saved;
  if (!is_first()) return;  // one rank tells, and ends with the error
  record_.last_save = result.saved.status();
  if (result.saved.ok()) {
    if (!result.pruned.ok()) {
      printer_->Print(absl::StrCat("warning: older checkpoints stay: ", result.pruned.message()));
    }
    return;
  }
  ++record_.failed_saves;
  const int64_t step = result.step, steps = options_.schedule.steps;
  const bool last = over_ || !session_->status().ok() || step == steps ||
                    (record_.stopped && step == record_.steps_done);
  const absl::StatusOr<std::string> stands = LatestCheckpoint(options_.out + "/checkpoints");
  std::string next = "this was the last one";
  if (!last) {
    const int64_t every = options_.save_every;
    int64_t at = every > 0 ? std::min(steps, (step / every + 1) * every) : steps;
    if (record_.stopped) at = record_.steps_done;
    next = absl::StrCat("the next try is at step ", at);
  }
  printer_->Print(absl::StrCat(
      "warning: no checkpoint of step ", step, ": ", result.saved.status().message(), "; ",
      stands.ok() ? *stands + " stands" : "there is no earlier one", "; ", next));
}

void Trainer::CheckLog(const absl::Status& written) {
  if (written.ok() || warned_of_log_) return;
  warned_of_log_ = true;
  printer_->Print(absl::StrCat("warning: lines of the log will be missing: ", written.message()));
}

}  // namespace sluice
