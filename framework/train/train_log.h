// log.jsonl: one JSON object a step, and one an evaluation, in the order in which they happened.
//   {"step":7,"loss":2.31547213,"grad_norm":0.91,"lr":0.001,"tokens_per_second":21345.5}
//   {"step":200,"val_subset_loss":1.98,"val_subset_samples":128}
//   {"step":1000,"val_loss":1.91,"val_samples":2494}
// Speed has the unit that the run names. An evaluation says how many steps were done before it and
// has a member for each metric: "val_" where it counts all of the held-out data, "val_subset_"
// where it does not, or "val_final_" after the last step, and how many samples it counts. The first
// one also has what the data gives. Step n is the n-th, from 1. Floats have nine digits, which give
// an f32 back bit by bit; what is not finite is null. A line that cannot be written, as on a full
// disk, is an error and is missing; the log goes on with the next. One thread.
#ifndef SLUICE_FRAMEWORK_TRAIN_TRAIN_LOG_H_
#define SLUICE_FRAMEWORK_TRAIN_TRAIN_LOG_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/checkpoint/file.h"
#include "framework/train/metrics.h"

namespace sluice {

class TrainLog {
 public:
  // Opens `path` for a run that has done `steps_done` steps: lines of later steps, which a run left
  // that went on after its last checkpoint, are removed.
  static absl::StatusOr<TrainLog> Open(const std::string& path, int64_t steps_done,
                                       FileFaults* faults = nullptr);

  // `unit` names what `per_second` counts: "tokens".
  absl::Status Step(int64_t step, double loss, double gradient_norm, double learning_rate,
                    absl::string_view unit, double per_second);
  // `at_end`: after the last step. `facts` are further members of the object: names with texts.
  absl::Status Evaluation(int64_t step, absl::Span<const Metric> metrics,
                          const sluice::Evaluation& evaluation, bool at_end,
                          const std::vector<std::pair<std::string, std::string>>& facts);

 private:
  explicit TrainLog(FileWriter file) : file_(std::move(file)) {}
  absl::Status Append(const std::string& line);

  FileWriter file_;
  bool torn_ = false;  // the file may end within a line
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TRAIN_TRAIN_LOG_H_
