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
  // A line that stays, above the one that is rewritten.
  void Print(absl::string_view line);

 private:
  FILE* out_;
  bool terminal_;
  int columns_;
  double seconds_between_;
  double next_ = 0;
  std::string shown_;  // what stands in the terminal's last line
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TRAIN_PROGRESS_H_
