#include "bench/step_timing.h"

#include <sys/resource.h>
#include <unistd.h>
#include <algorithm>

#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/limits.h"
#include "bench/local_ranks.h"
#include "bench/quantiles.h"
#include "framework/base/status.h"
#include "framework/device/cpu_thread_pool.h"
#include "framework/kernels/cpu/library_call.h"
#include "framework/runtime/trace.h"
#include "framework/train/command.h"
#include "nlohmann/json.hpp"

ABSL_FLAG(std::string, mesh, "data=1", "axes of the mesh; the batch grows with the axis data");
ABSL_FLAG(int64_t, micro_batches, 1, "micro-batches of a step");
ABSL_FLAG(int32_t, threads, 1, "threads of a device");
ABSL_FLAG(std::string, precision, "f32", "f32 or bf16");
ABSL_FLAG(std::string, residual_precision, "f32", "of the residual stream: f32 or bf16");
ABSL_FLAG(bool, fuse, true, "make one op of several that pass over the same activations");
ABSL_FLAG(int64_t, warmup, 3, "steps before the clock starts");
ABSL_FLAG(int64_t, steps, 20, "timed steps");
ABSL_FLAG(std::string, trace, "", "file for a timeline of the run");

namespace sluice {
namespace {

using Json = nlohmann::json;

double SecondsBetween(int64_t begin, int64_t end) {
  return 1e-9 * static_cast<double>(end - begin);
}

int64_t ResidentBytes() {
  FILE* file = fopen("/proc/self/statm", "r");
  long size = 0, resident = 0;
  if (file == nullptr) return 0;
  const bool read = fscanf(file, "%ld %ld", &size, &resident) == 2;
  fclose(file);
  return read ? int64_t{resident} * sysconf(_SC_PAGESIZE) : 0;
}

int64_t PeakResidentBytes() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

SessionOptions OptionsOfFlags() {
  SessionOptions options;
  options.mesh = absl::GetFlag(FLAGS_mesh);
  options.micro_batches = absl::GetFlag(FLAGS_micro_batches);
  options.threads_per_device = absl::GetFlag(FLAGS_threads);
  options.fuse = absl::GetFlag(FLAGS_fuse);
  options.trace = absl::GetFlag(FLAGS_trace);
  return options;
}

absl::StatusOr<StepSetting> ReadSetting() {
  StepSetting setting;
  ASSIGN_OR_RETURN(setting.mesh, Mesh::Parse(absl::GetFlag(FLAGS_mesh)));
  ASSIGN_OR_RETURN(setting.precision.compute, ParseDType(absl::GetFlag(FLAGS_precision)));
  ASSIGN_OR_RETURN(setting.precision.residual, ParseDType(absl::GetFlag(FLAGS_residual_precision)));
  for (const auto& [name, value] :
       {std::pair<const char*, int64_t>{"warmup", absl::GetFlag(FLAGS_warmup)},
        {"steps", absl::GetFlag(FLAGS_steps)},
        {"threads", absl::GetFlag(FLAGS_threads)}}) {
    if (value >= 1) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--", name, ": expected at least 1, got ", value));
  }
  return setting;
}

// What a step takes whose products and convolutions run at the machine's limits and whose other
// work takes no time.
struct StepLimit {
  double matmul_flops = 0, convolution_flops = 0;  // a second
  double seconds = 0;
};

void MeasureStepLimit(const TimedModel& model, DType precision, ThreadPool* thread_pool,
                      StepLimit* limit) {
  limit->matmul_flops = std::max(limit->matmul_flops, MeasureMatMul(thread_pool, precision));
  limit->seconds = (model.flops_per_step - model.convolution_flops_per_step) / limit->matmul_flops;
  if (model.convolution_flops_per_step == 0) return;
  limit->convolution_flops =
      std::max(limit->convolution_flops, MeasureConvolution(thread_pool, precision));
  limit->seconds += model.convolution_flops_per_step / limit->convolution_flops;
}

// A limit that the step beats was measured while others used the machine: it is measured again, and
// what is still beaten then is no limit, while the step itself is one that can be reached.
StepLimit MeasureStepLimit(const TimedModel& model, const StepSetting& setting,
                           const SessionOptions& options, double step) {
  constexpr int kTries = 3;
  const int threads = options.threads_per_device * static_cast<int>(setting.mesh.num_devices());
  CpuThreadPool thread_pool(threads, InitKernelThread);
  StepLimit limit;
  for (int i = 0; i < kTries && (i == 0 || limit.seconds > step); ++i) {
    MeasureStepLimit(model, setting.precision.compute, &thread_pool, &limit);
  }
  const double beaten = std::max(1.0, limit.seconds / step);
  return {limit.matmul_flops * beaten, limit.convolution_flops * beaten, limit.seconds / beaten};
}

absl::Status Measure(const StepBenchmark& benchmark) {
  const int64_t base_bytes = ResidentBytes();
  ASSIGN_OR_RETURN(const StepSetting setting, ReadSetting());
  ASSIGN_OR_RETURN(const TimedModel model, benchmark.model(setting));
  ASSIGN_OR_RETURN(const std::unique_ptr<Job> job, JoinLaunchedJob());
  SessionOptions options = OptionsOfFlags();
  ASSIGN_OR_RETURN(options.net, job->net());
  if (!job->is_first()) options.trace.clear();
  const int64_t begin = NowNanoseconds();
  Graph graph;
  RETURN_IF_ERROR(model.build(&graph));
  ASSIGN_OR_RETURN(std::unique_ptr<Session> session, Session::Start({{"train", &graph}}, options));
  const int64_t started = NowNanoseconds();
  const StepRunOptions how = {.warmup = absl::GetFlag(FLAGS_warmup),
                              .steps = absl::GetFlag(FLAGS_steps),
                              .has_loss = job->is_first()};
  ASSIGN_OR_RETURN(const StepRun timing, RunSteps(session.get(), model.feeds, how));
  session.reset();
  if (!job->is_first()) return absl::OkStatus();
  // Before the limit is measured, which takes memory of its own.
  const int64_t peak_bytes = PeakResidentBytes();
  const double step = Median(timing.seconds);
  // Of a rank's cores alone it would be no limit of the step.
  StepLimit limit;
  if (job->ranks() == 1) limit = MeasureStepLimit(model, setting, options, step);
  std::vector<double> milliseconds = timing.seconds;
  for (double& value : milliseconds) value *= 1e3;
  Json line = {{"benchmark", benchmark.name},
               {"framework", "sluice"},
               {"size", model.size},
               {"mesh", options.mesh},
               {"precision", DTypeName(setting.precision.compute)},
               {"threads", options.threads_per_device},
               {"parameters", model.parameters},
               {benchmark.unit + "_per_step", model.units_per_step},
               {"flops_per_step", model.flops_per_step},
               {"step_ms", milliseconds},
               {"median_ms", step * 1e3},
               {benchmark.unit + "_per_second", model.units_per_step / step},
               {"peak_bytes", peak_bytes},
               {"base_bytes", base_bytes},
               {"start_seconds", SecondsBetween(begin, started)},
               {"first_loss", timing.first_loss},
               {"last_loss", timing.last_loss}};
  if (job->ranks() > 1) line["ranks"] = job->ranks();
  if (limit.seconds > 0) {
    line["limit_ms"] = limit.seconds * 1e3;
    line["limit_flops"] = limit.matmul_flops;
    line["share"] = limit.seconds / step;
  }
  if (limit.convolution_flops > 0) line["limit_convolution_flops"] = limit.convolution_flops;
  absl::PrintF("%s\n", line.dump());
  return absl::OkStatus();
}

}  // namespace

void TimedModel::SetSize(const ModelSize& forward) {
  parameters = forward.parameters;
  flops_per_step = 3 * static_cast<double>(forward.flops);
  convolution_flops_per_step = 3 * static_cast<double>(forward.convolution_flops);
}

int RunStepBenchmark(const StepBenchmark& benchmark, int argc, char** argv) {
  std::vector<FlagEntry> what = benchmark.flags;
  for (const FlagEntry& entry : std::vector<FlagEntry>{{"mesh", "AXES", ""},
                                                       {"micro_batches", "N", ""},
                                                       {"threads", "N", ""},
                                                       {"precision", "TYPE", ""},
                                                       {"residual_precision", "TYPE", ""}}) {
    what.push_back(entry);
  }
  return RunCommand(
      {benchmark.name,
       absl::StrCat(benchmark.help, "; see bench/README.md.\n"),
       {{"What runs", what},
        {"How it is measured",
         {{"warmup", "N", ""}, {"steps", "N", ""}, {"fuse", "", ""}, {"trace", "FILE", "none"}}},
        RanksFlags()},
       {},
       [&benchmark] { return Measure(benchmark); }},
      argc, argv);
}

}  // namespace sluice
