#include "framework/train/train_log.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
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

// Of a line longer than this no run wrote a byte: it is left out and never held in memory.
constexpr size_t kLongestLine = 1 << 20;
constexpr int64_t kPiece = 1 << 16;

bool Keeps(absl::string_view line, int64_t steps_done) {
  const int64_t step = StepOf(line);
  // The evaluation at this very step is made again.
  const bool again = step == steps_done && absl::StrContains(line, "\"val_");
  return step >= 0 && step <= steps_done && !again;
}

// Gives `keep` every line that stays, with its end, and returns whether that is the whole log as it
// is. A log may be longer than memory.
absl::StatusOr<bool> FilterLog(const FileReader& log, int64_t steps_done,
                               const std::function<absl::Status(absl::string_view)>& keep) {
  std::string piece, line;
  bool whole = true;
  const auto end_line = [&]() -> absl::Status {
    const bool keeps = line.size() <= kLongestLine && Keeps(line, steps_done);
    if (keeps) RETURN_IF_ERROR(keep(absl::StrCat(line, "\n")));
    whole = whole && keeps;
    line.clear();
    return absl::OkStatus();
  };
  for (int64_t at = 0; at < log.size(); at += static_cast<int64_t>(piece.size())) {
    piece.resize(std::min(kPiece, log.size() - at));
    RETURN_IF_ERROR(log.ReadAt(at, piece.data(), static_cast<int64_t>(piece.size())));
    absl::string_view rest = piece;
    for (size_t end = rest.find('\n'); end != absl::string_view::npos; end = rest.find('\n')) {
      absl::StrAppend(&line, rest.substr(0, end));
      RETURN_IF_ERROR(end_line());
      rest.remove_prefix(end + 1);
    }
    if (line.size() <= kLongestLine) absl::StrAppend(&line, rest);
  }
  if (line.empty()) return whole;
  RETURN_IF_ERROR(end_line());
  return false;  // the last line had no end
}

// Removes from the file what does not stay, at once; writes nothing where all of it does.
absl::Status DropLaterLines(const std::string& path, int64_t steps_done, FileFaults* faults) {
  ASSIGN_OR_RETURN(const FileReader log, FileReader::Open(path));
  ASSIGN_OR_RETURN(const bool whole,
                   FilterLog(log, steps_done, [](absl::string_view) { return absl::OkStatus(); }));
  if (whole) return absl::OkStatus();
  const std::string beside = path + ".tmp";
  RETURN_IF_ERROR(RemoveTree(beside, faults));  // in a folder from anywhere it may be a link
  ASSIGN_OR_RETURN(FileWriter writer, FileWriter::Create(beside, faults));
  RETURN_IF_ERROR(FilterLog(log, steps_done, [&writer](absl::string_view line) {
                    return writer.Append(line);
                  }).status());
  RETURN_IF_ERROR(writer.Close());
  return Rename(beside, path, faults);
}

}  // namespace

absl::StatusOr<TrainLog> TrainLog::Open(const std::string& path, int64_t steps_done,
                                        FileFaults* faults) {
  if (access(path.c_str(), F_OK) == 0) {
    RETURN_IF_ERROR(DropLaterLines(path, steps_done, faults));
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
                                  const sluice::Evaluation& evaluation, bool at_end,
                                  const std::vector<std::pair<std::string, std::string>>& facts) {
  std::string line = absl::StrCat(kStep, step);
  const std::string prefix = LogPrefix(evaluation, at_end);
  for (size_t i = 0; i < metrics.size(); ++i) {
    absl::StrAppend(&line, ",\"", prefix, metrics[i].name, "\":", Json(evaluation.values[i]));
  }
  absl::StrAppend(&line, ",\"", prefix, "samples\":", evaluation.samples);
  for (const auto& fact : facts) {
    absl::StrAppend(&line, ",", Quoted(fact.first), ":", Quoted(fact.second));
  }
  return Append(line + "}");
}

}  // namespace sluice
