#include "framework/train/train_log.h"

#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "framework/base/status.h"
#include "framework/base/text.h"
#include "framework/checkpoint/file.h"

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

absl::Status Failed(const std::string& path) {
  return absl::UnavailableError(absl::StrCat("cannot write ", path, ": ", strerror(errno)));
}

}  // namespace

absl::StatusOr<TrainLog> TrainLog::Open(const std::string& path, int64_t steps_done) {
  if (access(path.c_str(), F_OK) == 0) {
    ASSIGN_OR_RETURN(std::string text, ReadText(path, int64_t{1} << 30));
    std::string kept;
    for (absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
      const int64_t step = StepOf(line);
      const bool evaluation = absl::StrContains(line, "\"val_loss\"");
      // The evaluation at this very step is made again.
      if (step < 0 || step > steps_done || (evaluation && step == steps_done)) continue;
      absl::StrAppend(&kept, line, "\n");
    }
    if (kept != text) {
      const std::string beside = path + ".tmp";
      ASSIGN_OR_RETURN(FileWriter writer, FileWriter::Create(beside));
      RETURN_IF_ERROR(writer.Append(kept));
      RETURN_IF_ERROR(writer.Close());
      if (rename(beside.c_str(), path.c_str()) != 0) return Failed(path);
    }
  }
  FILE* file = fopen(path.c_str(), "a");
  if (file == nullptr) return Failed(path);
  return TrainLog(file);
}

TrainLog::~TrainLog() {
  if (file_ != nullptr) fclose(file_);
}

void TrainLog::Step(int64_t step, double loss, double gradient_norm, double learning_rate,
                    double tokens_per_second) {
  absl::FPrintF(file_, "%s%d,\"loss\":%s,\"grad_norm\":%s,\"lr\":%s,\"tokens_per_second\":%s}\n",
                kStep, step, Json(loss), Json(gradient_norm), Json(learning_rate),
                Json(tokens_per_second));
  fflush(file_);
}

void TrainLog::Evaluation(int64_t step, double loss,
                          const std::vector<std::pair<std::string, std::string>>& facts) {
  absl::FPrintF(file_, "%s%d,\"val_loss\":%s", kStep, step, Json(loss));
  for (const auto& fact : facts) {
    absl::FPrintF(file_, ",%s:%s", Quoted(fact.first), Quoted(fact.second));
  }
  absl::FPrintF(file_, "}\n");
  fflush(file_);
}

}  // namespace sluice
