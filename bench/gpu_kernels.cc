// Every kernel of a training step on a card, beside what the card could do at most: its arithmetic
// or its bytes at the published peaks, or, of a card that has none here, at what a large product
// and a large copy reached in this run. Lines of JSON as bench/ops_benchmark.cc prints them. On the
// emulation times say nothing.
//   bazel run --config=cuda //bench:gpu_kernels -- --model=gpt2_124m --precision=bf16
#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/gpu_models.h"
#include "bench/gpu_op_timing.h"
#include "framework/base/status.h"
#include "framework/compiler/compile.h"
#include "framework/plan/kinds.h"
#include "framework/train/command.h"
#include "nlohmann/json.hpp"

ABSL_FLAG(std::string, model, "gpt_tiny", "the step's, as //bench:gpu_steps --json names them");
ABSL_FLAG(std::string, precision, "f32", "f32 or bf16");
ABSL_FLAG(bool, small, false, "the model's small form, which the emulation runs");
ABSL_FLAG(double, budget, 0.02, "seconds a kernel");

namespace sluice {
namespace {

using Json = nlohmann::json;

// Of the step on one CUDA device, what its kernels compute: no feeds, no copies to the host.
absl::StatusOr<std::vector<DistinctInstruction>> KernelsOf(const GpuModel& model) {
  Graph graph;
  RETURN_IF_ERROR(model.build(&graph));
  CompileOptions options;
  ASSIGN_OR_RETURN(options.mesh, Mesh::Parse("data=1 @cuda"));
  options.machine = Machine::Cpu();
  const std::vector<ProgramGraph> programs = {{"train", &graph}};
  ASSIGN_OR_RETURN(const plan::Plan plan, CompilePlan(programs, options));
  plan::Program compute;
  for (const plan::Actor& actor : plan.programs(0).actors()) {
    const plan::Stream& stream = plan.programs(0).streams(actor.stream());
    const bool on_card = KindOf(plan.devices(stream.device())) == DeviceKind::kCuda;
    if (on_card && stream.kind() == plan::STREAM_COMPUTE) *compute.add_actors() = actor;
  }
  std::vector<DistinctInstruction> kernels;
  for (const DistinctInstruction& one : DistinctInstructions(compute)) {
    if (NeedsKernel(one.instruction.kind())) kernels.push_back(one);
  }
  return kernels;
}

// "ops/gpt2_124m/cuda/bf16/": the report tells models and precisions apart by it.
std::string Prefix() {
  const std::string precision = absl::GetFlag(FLAGS_precision);
  return absl::StrCat("ops/", absl::GetFlag(FLAGS_model), "/cuda/",
                      precision == "f32" ? "" : absl::StrCat(precision, "/"));
}

void Print(const std::string& name, double value, const std::string& unit, const Json& more) {
  Json line = {{"name", absl::StrCat(Prefix(), name)}, {"value", value}, {"unit", unit}};
  line.update(more);
  absl::PrintF("%s\n", line.dump());
}

// Measures what is no kernel of the step, and where the card has no published peaks makes these the
// limits.
absl::Status MeasureLimits(DType precision, bool small, GpuOpTimer* timer) {
  const int64_t cached = small ? 4096 : int64_t{16} << 20;
  const int64_t large = small ? 65536 : int64_t{1} << 30;
  const int64_t width = small ? 32 : 8192;
  ASSIGN_OR_RETURN(const double cached_rate, timer->MeasureCopy(cached));
  ASSIGN_OR_RETURN(const double rate, timer->MeasureCopy(large));
  ASSIGN_OR_RETURN(const double flops, timer->MeasureMatMul(width, precision));
  const Json none = Json::object();
  Print(absl::StrCat("limit/read/bytes:", cached), cached_rate, "B/s", none);
  Print(absl::StrCat("limit/read/bytes:", large), rate, "B/s", none);
  Print(absl::StrCat("limit/matmul/", DTypeName(precision)), flops, "FLOP/s", none);
  if (const auto peaks = GpuPeaksOfCard(timer->card()); peaks.has_value()) {
    timer->set_peaks(*peaks);
  } else {
    timer->set_peaks({"measured", flops, flops, rate});
  }
  Print("peak/memory", timer->peaks().memory_bytes, "B/s", {{"note", timer->peaks().name}});
  Print("peak/arithmetic",
        precision == DType::kBF16 ? timer->peaks().bf16_flops : timer->peaks().f32_flops, "FLOP/s",
        {{"note", timer->peaks().name}});
  return absl::OkStatus();
}

void PrintKernels(std::vector<GpuOpTime> times) {
  const auto of_step = [](const GpuOpTime& time) {
    return time.seconds * static_cast<double>(time.count);
  };
  std::sort(times.begin(), times.end(),
            [&](const GpuOpTime& a, const GpuOpTime& b) { return of_step(a) > of_step(b); });
  double all = 0, limits = 0;
  for (const GpuOpTime& time : times) {
    all += of_step(time);
    limits += time.Limit() * static_cast<double>(time.count);
  }
  std::map<std::string, int> seen;  // shortened names may meet
  for (const GpuOpTime& time : times) {
    const int number = ++seen[time.name];
    Print(number == 1 ? time.name : absl::StrCat(time.name, " #", number), time.seconds * 1e9, "ns",
          {{"limit", time.Limit() * 1e9},
           {"note", time.Binds()},
           {"parts",
            {{"times", time.count},
             {"share of the step", of_step(time) / all},
             {"flops", time.flops},
             {"bytes", time.bytes},
             {"working_set", time.working_set},
             {"flops_per_second", time.flops / time.seconds},
             {"bytes_per_second", time.bytes / time.seconds}}}});
  }
  Print("kernels of a step", all * 1e9, "ns", {{"limit", limits * 1e9}});
}

// Of those that fail the first is told when all others have been timed, each on a device that
// knows of no error.
absl::Status TimeKernels(const std::vector<DistinctInstruction>& kernels,
                         const std::function<absl::StatusOr<GpuOpTimer>()>& create,
                         std::optional<GpuOpTimer> timer) {
  const GpuPeaks peaks = timer->peaks();
  std::vector<GpuOpTime> times;
  absl::Status first;
  int64_t failed = 0;
  for (const DistinctInstruction& one : kernels) {
    const absl::StatusOr<GpuOpTime> time = timer->Measure(one);
    if (time.ok()) {
      times.push_back(*time);
      continue;
    }
    if (failed++ == 0) first = AddContext(time.status(), InstructionName(one.instruction));
    timer.reset();  // its memory is needed
    ASSIGN_OR_RETURN(timer, create());
    timer->set_peaks(peaks);
  }
  if (!times.empty()) PrintKernels(std::move(times));
  if (failed == 0) return absl::OkStatus();
  return AddContext(first, absl::StrCat(failed, " of ", kernels.size(), " kernels failed"));
}

absl::Status MeasureKernels() {
  const bool small = absl::GetFlag(FLAGS_small);
  ASSIGN_OR_RETURN(const DType precision, ParseDType(absl::GetFlag(FLAGS_precision)));
  ASSIGN_OR_RETURN(const GpuModel model, GpuModelOf(absl::GetFlag(FLAGS_model), precision, small));
  ASSIGN_OR_RETURN(const std::vector<DistinctInstruction> kernels, KernelsOf(model));
  // What the limits are measured with.
  int64_t bytes = small ? int64_t{1} << 16 : int64_t{1} << 30;
  for (const DistinctInstruction& one : kernels) {
    ASSIGN_OR_RETURN(const int64_t own, GpuOpTimer::BytesOf(one));
    bytes = std::max(bytes, own);
  }
  GpuTimingOptions options;
  options.budget = absl::GetFlag(FLAGS_budget);
  if (small) {
    options.most_launches = 1;
    options.rotated_bytes = 0;
  }
  const auto create = [&] { return GpuOpTimer::Create(bytes, options); };
  ASSIGN_OR_RETURN(GpuOpTimer timer, create());
  RETURN_IF_ERROR(MeasureLimits(precision, small, &timer));
  return TimeKernels(kernels, create, std::move(timer));
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  return sluice::RunCommand(
      {"gpu_kernels",
       "Times every kernel of a training step on a GPU; see bench/README.md.\n",
       {{"Flags",
         {{"model", "NAME", ""},
          {"precision", "TYPE", ""},
          {"small", "", ""},
          {"budget", "SECONDS", ""}}}},
       {},
       sluice::MeasureKernels},
      argc, argv);
}
