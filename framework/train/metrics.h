// Figures of a run that people watch, by name and unit. A run counts samples; a model may name the
// unit in which its speed is told.
#ifndef SLUICE_FRAMEWORK_TRAIN_METRICS_H_
#define SLUICE_FRAMEWORK_TRAIN_METRICS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"

namespace sluice {

// What speed is told in: so many of `unit` a second, and "<unit>_per_second" in the log.
struct Throughput {
  std::string unit = "samples";
  double per_sample = 1;  // how many of them a sample is
};

// A figure of held-out data. It is the sum of one of a program's outputs over samples, divided by
// the sum of what each sample counts for. Both outputs have one value a sample, so that the figure
// depends neither on the batch nor on how the program is laid out.
struct Metric {
  std::string name = "";  // of the output; in the log "val_<name>" or "val_subset_<name>"
  std::string unit = "";  // for people: "nats a byte"; may be empty
  // The output with what each sample counts for, such as its number of tokens. Empty: one.
  std::string weight = "";
  bool larger_is_better = false;
  // Whether NaN says that the samples do not define the figure, as of an area under a curve where
  // all samples have the same label. Of any other metric NaN is an error.
  bool may_be_undefined = false;
};

// What held-out data say of a model.
struct Evaluation {
  std::vector<double> values;  // by metric; empty on all ranks but the first
  int64_t samples = 0;         // that were counted, each once
  int64_t all_samples = 0;     // that are held out
  bool is_whole() const { return samples == all_samples; }
};

// "loss 1.9823, accuracy 0.7031 on 128 of 2494 samples"; "... on all 2494 samples".
std::string EvaluationText(absl::Span<const Metric> metrics, const Evaluation& evaluation);
// What its figures are called in the log: "val_" before the name where they are of all held-out
// data, and else "val_subset_", or after the last step, where the samples are others, "val_final_".
std::string LogPrefix(const Evaluation& evaluation, bool at_end);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TRAIN_METRICS_H_
