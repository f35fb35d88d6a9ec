// The training steps that are predicted and measured on GPUs: batches that fill a large card, and
// the tiny GPT, whose kernels are shorter than their launches. Each in a small form as well, which
// the emulation on a CPU can run.
#ifndef SLUICE_BENCH_GPU_MODELS_H_
#define SLUICE_BENCH_GPU_MODELS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/step_batches.h"
#include "framework/graph/graph.h"
#include "framework/tensor/dtype.h"

namespace sluice {

struct GpuModel {
  std::string name;   // "gpt2_124m"
  std::string title;  // "GPT-2 124M, 16 x 1024"
  std::string unit;   // what a step is told in: "tokens"
  int64_t units_per_step = 0;
  std::function<absl::StatusOr<int64_t>()> parameters;
  std::function<absl::Status(Graph* graph)> build;  // the program "train"
  std::function<absl::StatusOr<StepFeeds>()> feeds;
};

// In the order of the tables that show them.
const std::vector<std::string>& GpuModelNames();
// InvalidArgument names --model.
absl::StatusOr<GpuModel> GpuModelOf(const std::string& name, DType precision, bool small);

}  // namespace sluice

#endif  // SLUICE_BENCH_GPU_MODELS_H_
