// The line that people watch while training: rewritten in place on a terminal, else a line of its
// own now and then. One thread.
#ifndef SLUICE_FRAMEWORK_TRAIN_PROGRESS_H_
#define SLUICE_FRAMEWORK_TRAIN_PROGRESS_H_

#include <cstdint>
#include <cstdio>
#include <string>

#include "absl/strings/string_view.h"

namespace sluice {

struct Progress {
  int64_t step = 0, steps = 0;  // `step` steps of `steps` are done
  double loss = 0, gradient_norm = 0, learning_rate = 0;
  double per_second = 0;  // of `unit`
  std::string unit = "samples";
  double utilization = -1;  // share of the machine's measured matmul peak; negative: not known
  double seconds_left = 0;
};

// "step  340/2000  loss 2.1034  norm 0.912  lr 9.80e-04  21.3k tokens/s  41% of peak  1:32 left"
std::string ProgressLine(const Progress& progress);

// "0:07", "12:34", "3:04:05".
std::string DurationText(double seconds);

class ProgressPrinter {
 public:
  // `columns` cuts the line that is rewritten; 0: as wide as it is. `seconds_between` lines where
  // it is not rewritten; the last step's always comes.
  ProgressPrinter(FILE* out, bool terminal, int columns, double seconds_between);
  // For a file: terminal and columns as the system says, a line a second.
  static ProgressPrinter For(FILE* out);
  ~ProgressPrinter();

  // `now` in seconds, from any origin.
  void Update(const Progress& progress, double now);
  // Of an evaluation that takes long: `done` of `samples` after so many seconds. Nothing is shown
  // of the first second, and where lines are not rewritten, a line every ten.
  void UpdateEvaluation(int64_t done, int64_t samples, double seconds);
  // A line that stays, above the one that is rewritten.
  void Print(absl::string_view line);

 private:
  void Show(std::string line);

  FILE* out_;
  bool terminal_;
  int columns_;
  double seconds_between_;
  double next_ = 0;             // when the next line of steps is due
  double next_evaluation_ = 0;  // the same of an evaluation, in its seconds
  std::string shown_;           // what stands in the terminal's last line
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TRAIN_PROGRESS_H_
