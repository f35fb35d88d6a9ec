// Times steps of a model's training, run through Session as a user runs it: as many steps in flight
// as a session holds, in one process or as ranks of a launcher, of which the first one prints. A
// program of it prints one line of JSON that bench/report.py reads and whose fields the peers of
// bench/peers/ give, too. A main brings a model and returns what RunStepBenchmark returns.
#ifndef SLUICE_BENCH_STEP_TIMING_H_
#define SLUICE_BENCH_STEP_TIMING_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/step_run.h"
#include "framework/graph/graph.h"
#include "framework/nn/model_size.h"
#include "framework/passes/mixed_precision.h"
#include "framework/sbp/mesh.h"
#include "framework/train/flags.h"

namespace sluice {

// What the flags of every such program say of the model.
struct StepSetting {
  Mesh mesh;  // the batch grows with its axis data
  PrecisionOptions precision;
};

struct TimedModel {
  std::string size;  // its name
  int64_t parameters = 0;
  double units_per_step = 0, flops_per_step = 0;
  double convolution_flops_per_step = 0;            // of these, those of convolutions
  std::function<absl::Status(Graph* graph)> build;  // the program "train"
  StepFeeds feeds;

  // Of its forward part: parameters and operations, of which training takes three times as many.
  void SetSize(const ModelSize& forward);
};

struct StepBenchmark {
  std::string name, help;
  std::string unit;              // what a step is told in: "tokens"
  std::vector<FlagEntry> flags;  // of the model
  std::function<absl::StatusOr<TimedModel>(const StepSetting& setting)> model;
};

int RunStepBenchmark(const StepBenchmark& benchmark, int argc, char** argv);

}  // namespace sluice

#endif  // SLUICE_BENCH_STEP_TIMING_H_
