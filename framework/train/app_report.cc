#include "framework/train/app_report.h"

#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "framework/base/cores.h"
#include "framework/base/status.h"
#include "framework/train/job_flags.h"
#include "framework/train/peak.h"
#include "framework/train/plot.h"

namespace sluice {
namespace {

// The curve of the loss, and of what is held out: on top of it where that is a loss, too. The last
// evaluation counts more samples than those before, so it is no point of their curve.
void PrintCurves(const TrainingRecord& record, const Metric& metric, const AppData& data) {
  const bool both = metric.name == "loss";
  absl::PrintF("\n%s", DrawPlot(record.losses, both ? record.evaluations : std::vector<PlotPoint>(),
                                PlotOptions()));
  const std::string in = metric.unit.empty() || !both ? "" : " in " + metric.unit;
  std::string of;
  if (record.newest_evaluation) {
    of = absl::StrCat(" on ", data.held_out_name,
                      record.subset_samples < record.newest_evaluation->all_samples
                          ? absl::StrCat(", ", record.subset_samples, " of its samples")
                          : "");
  }
  absl::PrintF("          loss%s%s\n\n", in, of.empty() || !both ? "" : "; o:" + of);
  if (both || record.evaluations.empty()) return;
  absl::PrintF("%s          %s%s\n\n",
               DrawPlot(record.evaluations, record.evaluations, PlotOptions()), metric.name, of);
}

// The figures of held-out data, and what any model should beat.
void PrintEvaluation(const Evaluation& evaluation, const std::vector<Metric>& metrics,
                     const AppData& data) {
  if (evaluation.values.empty()) return;  // the first rank has them
  const double value = evaluation.values[0];
  const Metric& first = metrics[0];
  absl::PrintF("held-out %s%s", EvaluationText(metrics, evaluation),
               first.unit.empty() ? "" : absl::StrCat("; ", first.name, " in ", first.unit));
  if (data.baseline) {
    const double other = data.baseline->value;
    absl::PrintF(", %.4f %s %s's %.4f", std::abs(other - value), value < other ? "below" : "above",
                 data.baseline->name, other);
  }
  absl::PrintF("\n");
}

// Says which data was too large to be identified by all of its bytes.
void PrintSampled(const char* use, const Dataset* dataset) {
  if (dataset == nullptr) return;
  const DataIdentity identity = dataset->identity();
  if (identity.sampled == 0) return;
  absl::PrintF(
      "identity   the data %s is recognized by %.3g %% of its bytes, evenly spread, and by the "
      "sizes of its parts; changes elsewhere are not noticed\n",
      use, 100 * static_cast<double>(identity.sampled) / static_cast<double>(identity.bytes));
}

}  // namespace

absl::StatusOr<double> PrintBeginning(const AppOptions& options, const AppData& data,
                                      const Job& job) {
  for (const std::string& line : data.lines) absl::PrintF("%s\n", line);
  PrintSampled("to learn from", data.training.get());
  PrintSampled("that is held out", data.held_out.get());
  double peak = 0;
  if (job.ranks() > 1) {
    ASSIGN_OR_RETURN(const std::string about, DescribeJob(job, options.job.place, options.session));
    absl::PrintF("%s", about);
  } else {
    const int cores = UsableCores();
    absl::PrintF("machine    %s on %d cores", options.session.mesh, cores);
    if (options.measure_peak) {
      ASSIGN_OR_RETURN(peak, MeasureMatmulPeak(cores, options.precision.compute));
      absl::PrintF("; %.0f GFLOP/s in matmuls", peak / 1e9);
    }
    absl::PrintF("\n");
  }
  if (absl::StrContains(options.session.mesh, "@cuda")) {
    absl::PrintF("sums       of devices in %s order\n",
                 options.session.reproducible ? "the CPU's" : "NCCL's");
  }
  PrintPage(options.session);
  if (!options.changed.empty()) {
    absl::PrintF("changed    since the run that goes on: %s\n",
                 absl::StrJoin(options.changed, "; "));
  }
  const LearningRateSchedule& schedule = options.schedule;
  if (schedule.warmup > schedule.steps) {
    absl::PrintF(
        "warning: the learning rate never reaches --lr: it rises for --warmup=%d of only "
        "--steps=%d steps\n",
        schedule.warmup, schedule.steps);
  }
  absl::PrintF("run        %s\n\n", options.out);
  return peak;
}

void PrintPage(const SessionOptions& session) {
  if (session.explain_html.empty()) return;
  absl::PrintF("page       %s\n", session.explain_html);
}

void PrintEnd(const TrainingRecord& record, const AppModel& model, const AppData& data,
              const AppOptions& options) {
  PrintCurves(record, model.metrics[0], data);
  if (record.newest_evaluation && !record.stopped) {
    PrintEvaluation(*record.newest_evaluation, model.metrics, data);
  }
  absl::PrintF("checkpoint %s\n", record.checkpoint.empty() ? "none" : record.checkpoint);
  if (!record.best.empty()) absl::PrintF("best       %s\n", record.best);
  absl::PrintF("log        %s\n", record.log);
  if (record.saves > 0 && !record.losses.empty() && record.step_seconds > 0) {
    const double pause = record.save_seconds / static_cast<double>(record.saves);
    const double step = record.step_seconds / static_cast<double>(record.losses.size());
    absl::PrintF("saving     %d times; steps waited %.1f ms for each, %.1f %% of a step\n",
                 record.saves, 1e3 * pause, 100 * pause / step);
  }
  if (record.failed_saves > 0) {
    absl::PrintF("checkpoints that were not written: %d; see the warnings\n", record.failed_saves);
  }
  if (record.stopped && !record.checkpoint.empty()) {
    absl::PrintF("stopped; --resume=%s goes on\n", options.out);
  }
}

}  // namespace sluice
