#include "framework/train/train_log.h"

#include <unistd.h>

#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "framework/base/status.h"
#include "framework/base/text.h"

namespace sluice {
namespace {

std::string Json(double number) {
  return std::isfinite(number) ? absl::StrFormat("%.9g", number) : "null";
}

constexpr absl::string_view kStep = "{\"step\":";

// The step of a line, or -1 where it is none of ours, such as one that a crash cut short.
int64_t StepOf(absl::string_view line) {
  int64_t step;
  if (line.empty() || line.back() != '}' || !absl::ConsumePrefix(&line, kStep)) return -1;
  return absl::SimpleAtoi(line.substr(0, line.find(',')), &step) ? step : -1;
}

}  // namespace

absl::StatusOr<TrainLog> TrainLog::Open(const std::string& path, int64_t steps_done,
                                        FileFaults* faults) {
  if (access(path.c_str(), F_OK) == 0) {
    ASSIGN_OR_RETURN(std::string text, ReadText(path, int64_t{1} << 30));
    std::string kept;
    for (absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
      const int64_t step = StepOf(line);
      const bool evaluation = absl::StrContains(line, "\"val_");
      // The evaluation at this very step is made again.
      if (step < 0 || step > steps_done || (evaluation && step == steps_done)) continue;
      absl::StrAppend(&kept, line, "\n");
    }
    if (kept != text) {
      const std::string beside = path + ".tmp";
      ASSIGN_OR_RETURN(FileWriter writer, FileWriter::Create(beside, faults));
      RETURN_IF_ERROR(writer.Append(kept));
      RETURN_IF_ERROR(writer.Close());
      RETURN_IF_ERROR(Rename(beside, path, faults));
    }
  }
  ASSIGN_OR_RETURN(FileWriter file, FileWriter::Extend(path, faults));
  return TrainLog(std::move(file));
}

absl::Status TrainLog::Append(const std::string& line) {
  const absl::Status status = file_.Append(absl::StrCat(torn_ ? "\n" : "", line, "\n"));
  torn_ = !status.ok();
  return status;
}

absl::Status TrainLog::Step(int64_t step, double loss, double gradient_norm, double learning_rate,
                            absl::string_view unit, double per_second) {
  return Append(absl::StrFormat("%s%d,\"loss\":%s,\"grad_norm\":%s,\"lr\":%s,\"%s_per_second\":%s}",
                                kStep, step, Json(loss), Json(gradient_norm), Json(learning_rate),
                                unit, Json(per_second)));
}

absl::Status TrainLog::Evaluation(int64_t step, absl::Span<const Metric> metrics,
                                  absl::Span<const double> values,
                                  const std::vector<std::pair<std::string, std::string>>& facts) {
  std::string line = absl::StrCat(kStep, step);
  for (size_t i = 0; i < metrics.size(); ++i) {
    absl::StrAppend(&line, ",\"val_", metrics[i].name, "\":", Json(values[i]));
  }
  for (const auto& fact : facts) {
    absl::StrAppend(&line, ",", Quoted(fact.first), ":", Quoted(fact.second));
  }
  return Append(line + "}");
}

}  // namespace sluice
