#include "framework/train/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace sluice {
namespace {

std::string CountText(double count) {
  if (count < 1e3) return absl::StrFormat("%.0f", count);
  if (count < 1e4) return absl::StrFormat("%.2fk", count / 1e3);
  if (count < 1e6) return absl::StrFormat("%.1fk", count / 1e3);
  return absl::StrFormat("%.2fM", count / 1e6);
}

}  // namespace

std::string DurationText(double seconds) {
  if (!(seconds >= 0) || seconds > 1e9) return "?";
  const int64_t whole = std::llround(seconds);
  if (whole < 3600) return absl::StrFormat("%d:%02d", whole / 60, whole % 60);
  return absl::StrFormat("%d:%02d:%02d", whole / 3600, whole / 60 % 60, whole % 60);
}

std::string ProgressLine(const Progress& progress) {
  const std::string steps = absl::StrCat(progress.steps);
  return absl::StrFormat(
      "step %*d/%s  loss %.4f  norm %.3f  lr %.2e  %s %s/s  %s%s left",
      static_cast<int>(steps.size()), progress.step, steps, progress.loss, progress.gradient_norm,
      progress.learning_rate, CountText(progress.per_second), progress.unit,
      progress.utilization < 0 ? std::string()
                               : absl::StrFormat("%.0f%% of peak  ", 100 * progress.utilization),
      DurationText(progress.seconds_left));
}

ProgressPrinter::ProgressPrinter(FILE* out, bool terminal, int columns, double seconds_between)
    : out_(out), terminal_(terminal), columns_(columns), seconds_between_(seconds_between) {}

ProgressPrinter ProgressPrinter::For(FILE* out) {
  winsize size = {};
  const bool terminal = isatty(fileno(out)) == 1;
  if (terminal) ioctl(fileno(out), TIOCGWINSZ, &size);
  return ProgressPrinter(out, terminal, size.ws_col, /*seconds_between=*/1);
}

ProgressPrinter::~ProgressPrinter() {
  if (!shown_.empty()) fputs("\n", out_);
  fflush(out_);
}

void ProgressPrinter::Update(const Progress& progress, double now) {
  const bool last = progress.step == progress.steps;
  // A terminal takes no more than some twenty lines a second either.
  if (!last && now < next_) return;
  next_ = now + (terminal_ ? 0.05 : seconds_between_);
  Show(ProgressLine(progress));
}

void ProgressPrinter::UpdateEvaluation(int64_t done, int64_t samples, double seconds) {
  if (seconds < next_evaluation_) next_evaluation_ = 0;  // another evaluation
  const double first = terminal_ ? 1 : 10;
  if (seconds < std::max(first, next_evaluation_) || done == samples) return;
  next_evaluation_ = seconds + (terminal_ ? 0.1 : 10);
  const double left = seconds * static_cast<double>(samples - done) / static_cast<double>(done);
  Show(absl::StrFormat("evaluating  %d of %d samples  %s left", done, samples, DurationText(left)));
}

void ProgressPrinter::Show(std::string line) {
  if (!terminal_) {
    absl::FPrintF(out_, "%s\n", line);
  } else {
    if (columns_ > 0 && static_cast<int>(line.size()) >= columns_) line.resize(columns_ - 1);
    absl::FPrintF(out_, "\r%s\x1b[K", line);
    shown_ = line;
  }
  fflush(out_);
}

void ProgressPrinter::Print(absl::string_view line) {
  if (terminal_ && !shown_.empty()) {
    absl::FPrintF(out_, "\r\x1b[K%s\n%s", line, shown_);
  } else {
    absl::FPrintF(out_, "%s\n", line);
  }
  fflush(out_);
}

}  // namespace sluice
