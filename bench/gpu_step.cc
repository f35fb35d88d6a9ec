// Times steps of training on one card of NVIDIA's, or on the emulation of one, which says nothing
// of time: that is for tests. Prints one line of JSON, as bench/step_timing.h does, with the card's
// memory in the place of the process's.
//   bazel run --config=cuda //bench:gpu_step -- --model=gpt2_124m --precision=bf16
#include <cuda_runtime.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/gpu_models.h"
#include "bench/quantiles.h"
#include "bench/step_run.h"
#include "framework/base/status.h"
#include "framework/device/cuda_device.h"
#include "framework/kernels/cuda/support.h"
#include "framework/runtime/trace.h"
#include "framework/session/session.h"
#include "framework/train/command.h"
#include "nlohmann/json.hpp"

ABSL_FLAG(std::string, model, "gpt_tiny", "the step's, as //bench:gpu_steps --json names them");
ABSL_FLAG(std::string, precision, "f32", "f32 or bf16");
ABSL_FLAG(bool, small, false, "the model's small form, which the emulation runs");
ABSL_FLAG(int64_t, warmup, 5, "steps before the clock starts");
ABSL_FLAG(int64_t, steps, 50, "timed steps, at most");
ABSL_FLAG(double, seconds, 5, "that the timed steps may take together");
ABSL_FLAG(std::string, trace, "", "file for a timeline of the run");
ABSL_FLAG(bool, cuda_graphs, true, "launch runs of instructions at once, as graphs");
ABSL_FLAG(int64_t, script_length, 0, "longest run of instructions of one actor; 0 is no limit");

namespace sluice {
namespace {

// What this process may still have of the first card.
absl::StatusOr<int64_t> FreeBytes() {
  ASSIGN_OR_RETURN(const std::vector<int64_t> free, FreeCudaBytes());
  return free[0];
}

absl::StatusOr<std::string> CardName() {
  cudaDeviceProp properties = {};
  RETURN_IF_ERROR(FromCuda(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties"));
  return std::string(properties.name);
}

SessionOptions OptionsOfFlags() {
  SessionOptions options;
  options.mesh = "data=1 @cuda";
  options.cuda = &CudaSupport();
  options.trace = absl::GetFlag(FLAGS_trace);
  options.cuda_graphs = absl::GetFlag(FLAGS_cuda_graphs);
  options.script_length = absl::GetFlag(FLAGS_script_length);
  return options;
}

void Print(const GpuModel& model, int64_t parameters, const std::string& card, const StepRun& run,
           int64_t peak_bytes, double start_seconds) {
  const double step = Median(run.seconds);
  std::vector<double> milliseconds = run.seconds;
  for (double& value : milliseconds) value *= 1e3;
  const nlohmann::json line = {
      {"benchmark", "gpu_step"},
      {"framework", "sluice"},
      {"size", model.name},
      {"title", model.title},
      {"card", card},
      {"precision", absl::GetFlag(FLAGS_precision)},
      {"cuda_graphs", absl::GetFlag(FLAGS_cuda_graphs)},
      {"script_length", absl::GetFlag(FLAGS_script_length)},
      {"parameters", parameters},
      {model.unit + "_per_step", model.units_per_step},
      {"step_ms", milliseconds},
      {"median_ms", step * 1e3},
      {model.unit + "_per_second", static_cast<double>(model.units_per_step) / step},
      {"device_peak_bytes", peak_bytes},
      {"start_seconds", start_seconds},
      {"first_loss", run.first_loss},
      {"last_loss", run.last_loss}};
  absl::PrintF("%s\n", line.dump());
}

absl::Status Measure() {
  const StepRunOptions how = {.warmup = absl::GetFlag(FLAGS_warmup),
                              .steps = absl::GetFlag(FLAGS_steps),
                              .seconds = absl::GetFlag(FLAGS_seconds)};
  if (how.warmup < 1 || how.steps < 1) {
    return absl::InvalidArgumentError(absl::StrCat("--warmup, --steps: expected at least 1, got ",
                                                   how.warmup, " and ", how.steps));
  }
  ASSIGN_OR_RETURN(const DType precision, ParseDType(absl::GetFlag(FLAGS_precision)));
  ASSIGN_OR_RETURN(const GpuModel model,
                   GpuModelOf(absl::GetFlag(FLAGS_model), precision, absl::GetFlag(FLAGS_small)));
  // The context that the driver makes with this question is not the model's.
  ASSIGN_OR_RETURN(const int64_t before, FreeBytes());
  ASSIGN_OR_RETURN(const std::string card, CardName());
  const int64_t begin = NowNanoseconds();
  Graph graph;
  RETURN_IF_ERROR(model.build(&graph));
  ASSIGN_OR_RETURN(const StepFeeds feeds, model.feeds());
  ASSIGN_OR_RETURN(const int64_t parameters, model.parameters());
  ASSIGN_OR_RETURN(std::unique_ptr<Session> session,
                   Session::Start({{"train", &graph}}, OptionsOfFlags()));
  const int64_t started = NowNanoseconds();
  ASSIGN_OR_RETURN(const StepRun run, RunSteps(session.get(), feeds, how));
  // Nothing is allocated or freed while steps run, so this is the peak.
  ASSIGN_OR_RETURN(const int64_t after, FreeBytes());
  RETURN_IF_ERROR(session->Close());
  session.reset();
  Print(model, parameters, card, run, before - after, static_cast<double>(started - begin) * 1e-9);
  return absl::OkStatus();
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  return sluice::RunCommand(
      {"gpu_step",
       "Times steps of training on a GPU; see bench/README.md.\n",
       {{"What runs", {{"model", "NAME", ""}, {"precision", "TYPE", ""}, {"small", "", ""}}},
        {"How it is launched", {{"cuda_graphs", "", ""}, {"script_length", "N", ""}}},
        {"How it is measured",
         {{"warmup", "N", ""},
          {"steps", "N", ""},
          {"seconds", "X", ""},
          {"trace", "FILE", "none"}}}},
       {},
       sluice::Measure},
      argc, argv);
}
