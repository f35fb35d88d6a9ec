// How long the five models' steps would take on a GPU at its published peaks: every instruction of
// the compiled plan at the larger of its arithmetic and its memory time, one after the other, and
// beside it what launching them costs. Nothing is run, and no figure is fitted: it is what a
// measured step is held against, and what fusing or capturing could win at most.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/gpu_models.h"
#include "framework/base/status.h"
#include "framework/compiler/compile.h"
#include "framework/machine/gpu_peaks.h"
#include "framework/plan/kinds.h"
#include "framework/train/app_options.h"
#include "framework/train/command.h"
#include "nlohmann/json.hpp"

ABSL_FLAG(std::string, gpu, "h100",
          "h100, h200 or a100, all as SXM modules, or what a driver calls a card of these");
ABSL_FLAG(bool, small, false, "the models' small forms, which the emulation runs");
ABSL_FLAG(bool, json, false, "lines for ci/gpu instead of a table");
ABSL_FLAG(double, launch_microseconds, 2.5, "that a launch costs the thread that makes it");

namespace sluice {
namespace {

absl::StatusOr<Machine> MachineOf(const std::string& gpu) {
  std::optional<GpuPeaks> peaks = GpuPeaksOf(gpu);
  if (!peaks.has_value()) peaks = GpuPeaksOfCard(gpu);
  if (!peaks.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--gpu: expected h100, h200 or a100, or a card whose published peaks are known, got \"",
        gpu, "\""));
  }
  Machine machine;
  machine.launch_nanoseconds = 0;  // counted apart
  SetFigures(*peaks, &machine);
  return machine;
}

struct Times {
  int64_t instructions = 0, flops = 0, bytes = 0;
  int64_t products = 0, others = 0;  // nanoseconds
  int64_t memory = 0;                // bytes of the device
};

bool IsProduct(const std::string& op) {
  return absl::StartsWith(op, "matmul") || absl::StartsWith(op, "conv2d") ||
         absl::StartsWith(op, "attention") || absl::StartsWith(op, "padded_attention");
}

absl::StatusOr<Times> TimesOf(const GpuModel& model, const Machine& machine) {
  Graph graph;
  RETURN_IF_ERROR(model.build(&graph));
  CompileOptions options;
  ASSIGN_OR_RETURN(options.mesh, Mesh::Parse("data=1 @cuda"));
  options.machine = machine;
  const std::vector<ProgramGraph> programs = {{"train", &graph}};
  ASSIGN_OR_RETURN(const plan::Plan plan, CompilePlan(programs, options));
  Times times;
  const plan::Program& program = plan.programs(0);
  for (const plan::Device& device : plan.devices()) {
    if (KindOf(device) == DeviceKind::kCuda) times.memory += device.memory_bytes();
  }
  for (const plan::Actor& actor : program.actors()) {
    if (program.streams(actor.stream()).kind() != plan::STREAM_COMPUTE) continue;
    for (const plan::Instruction& x : actor.script()) {
      times.instructions += actor.firings_per_step();
      times.flops += actor.firings_per_step() * x.flops();
      times.bytes += actor.firings_per_step() * x.bytes();
      (IsProduct(x.op()) ? times.products : times.others) +=
          actor.firings_per_step() * x.nanoseconds();
    }
  }
  return times;
}

double Milliseconds(int64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1e6; }

void PrintRow(const GpuModel& model, DType precision, const Times& times, double launch) {
  const double products = Milliseconds(times.products), others = Milliseconds(times.others);
  absl::PrintF("| %s, %s | %.3f | %.1f | %.2f ms | %.2f ms | %.2f ms | %d | %.2f ms | %.2f GB |\n",
               model.title, DTypeName(precision), static_cast<double>(times.flops) / 1e12,
               static_cast<double>(times.bytes) / 1e9, products, others, products + others,
               times.instructions, static_cast<double>(times.instructions) * launch / 1e3,
               static_cast<double>(times.memory) / 1e9);
}

void PrintLine(const GpuModel& model, DType precision, const Times& times, double launch) {
  const nlohmann::json line = {
      {"model", model.name},
      {"title", model.title},
      {"precision", DTypeName(precision)},
      {"flops", times.flops},
      {"bytes", times.bytes},
      {"products_ms", Milliseconds(times.products)},
      {"limit_ms", Milliseconds(times.products + times.others)},
      {"launches", times.instructions},
      {"launching_ms", static_cast<double>(times.instructions) * launch / 1e3},
      {"memory_bytes", times.memory}};
  absl::PrintF("%s\n", line.dump());
}

absl::Status Print() {
  ASSIGN_OR_RETURN(const Machine machine, MachineOf(absl::GetFlag(FLAGS_gpu)));
  const double launch = absl::GetFlag(FLAGS_launch_microseconds);
  const bool json = absl::GetFlag(FLAGS_json);
  RETURN_IF_ERROR(CheckFlag("launch_microseconds", launch, 0, 1000));
  if (!json) {
    absl::PrintF(
        "| step on one %s | TFLOP | GB moved | products | all else | limit | launches | "
        "launching | memory |\n|---|---|---|---|---|---|---|---|---|\n",
        absl::GetFlag(FLAGS_gpu));
  }
  for (const std::string& name : GpuModelNames()) {
    for (const DType precision : {DType::kF32, DType::kBF16}) {
      ASSIGN_OR_RETURN(const GpuModel model,
                       GpuModelOf(name, precision, absl::GetFlag(FLAGS_small)));
      absl::StatusOr<Times> times = TimesOf(model, machine);
      if (!times.ok()) return AddContext(times.status(), model.title);
      (json ? PrintLine : PrintRow)(model, precision, *times, launch);
    }
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  return sluice::RunCommand(
      {"gpu_steps",
       "Prints how long the models' steps would take on a GPU at its published peaks.\n",
       {{"Flags",
         {{"gpu", "NAME", ""},
          {"launch_microseconds", "X", ""},
          {"small", "", ""},
          {"json", "", ""}}}},
       {},
       sluice::Print},
      argc, argv);
}
