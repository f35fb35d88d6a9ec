// Figures of a run that people watch, by name and unit. A run counts samples; a model may name the
// unit in which its speed is told.
#ifndef SLUICE_FRAMEWORK_TRAIN_METRICS_H_
#define SLUICE_FRAMEWORK_TRAIN_METRICS_H_

#include <string>

namespace sluice {

// What speed is told in: so many of `unit` a second, and "<unit>_per_second" in the log.
struct Throughput {
  std::string unit = "samples";
  double per_sample = 1;  // how many of them a sample is
};

// The mean of a program's output of this name over held-out data.
struct Metric {
  std::string name;  // "val_<name>" in the log
  std::string unit;  // for people: "nats a byte"; may be empty
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TRAIN_METRICS_H_
