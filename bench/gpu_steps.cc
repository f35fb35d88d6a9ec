// How long the five models' steps would take on a GPU at its published peaks: every instruction of
// the compiled plan at the larger of its arithmetic and its memory time, one after the other, and
// beside it what launching them costs. Nothing is run, and no figure is fitted: it is what a
// measured step is held against, and what fusing or capturing could win at most.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/step_models.h"
#include "framework/base/status.h"
#include "framework/compiler/compile.h"
#include "framework/plan/kinds.h"
#include "framework/train/app_options.h"
#include "framework/train/command.h"
#include "models/gpt/gpt.h"

ABSL_FLAG(std::string, gpu, "h100", "h100 or a100, both as SXM modules");
ABSL_FLAG(double, launch_microseconds, 2.5, "that a launch costs the thread that makes it");

namespace sluice {
namespace {

// Data sheets: f32 without tensor cores, dense bf16 with them, memory of the 80 GB modules.
absl::StatusOr<Machine> MachineOf(const std::string& gpu) {
  Machine machine;
  machine.launch_nanoseconds = 0;  // counted apart
  if (gpu == "h100") {
    machine.flops_per_second = 67e12;
    machine.bf16_flops_per_second = 989e12;
    machine.memory_bytes_per_second = 3.35e12;
  } else if (gpu == "a100") {
    machine.flops_per_second = 19.5e12;
    machine.bf16_flops_per_second = 312e12;
    machine.memory_bytes_per_second = 2.039e12;
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat("--gpu: expected h100 or a100, got \"", gpu, "\""));
  }
  return machine;
}

struct Step {
  std::string name;
  std::function<absl::Status(DType precision, Graph* graph)> build;
};

Step GptStep(const std::string& name, int64_t layers, int64_t heads, int64_t hidden,
             int64_t batch) {
  GptConfig config{.vocabulary = 50304,
                   .sequence_length = 1024,
                   .layers = layers,
                   .heads = heads,
                   .hidden = hidden,
                   .batch = batch,
                   .dropout = 0};
  return {absl::StrCat(name, ", ", batch, " x 1024"), [config](DType precision, Graph* graph) {
            GptConfig in = config;
            in.precision.compute = precision;
            return BuildGptTrain(in, OptimizerOptions(), graph);
          }};
}

// Batches that fill such a card, and the tiny GPT, whose kernels are shorter than their launches.
std::vector<Step> Steps() {
  std::vector<Step> steps;
  steps.push_back({"GPT tiny, 8 x 128", [](DType precision, Graph* graph) {
                     return BuildNamedStep("tiny", precision, graph);
                   }});
  steps.push_back(GptStep("GPT-2 124M", 12, 12, 768, 16));
  steps.push_back(GptStep("GPT-2 350M", 24, 16, 1024, 8));
  steps.push_back({"BERT base, 64 x 128", [](DType precision, Graph* graph) -> absl::Status {
                     ASSIGN_OR_RETURN(BertConfig config, BertOfStep("base"));
                     config.batch = 64;
                     config.precision.compute = precision;
                     return BuildBertTrain(config, OptimizerOptions(), graph);
                   }});
  steps.push_back({"ResNet-50, 128 x 224 x 224", [](DType precision, Graph* graph) {
                     ResNetConfig config = ResNetOfStep(50);
                     config.batch = 128;
                     config.precision.compute = precision;
                     return BuildResNetTrain(config, ResNetOptimizer(), graph);
                   }});
  steps.push_back({"ArcFace, 1,024 of 100,000 classes", [](DType precision, Graph* graph) {
                     FaceConfig config = ArcFaceOfStep(100000);
                     config.batch = 1024;
                     config.precision.compute = precision;
                     return BuildArcFaceTrain(config, ArcFaceOptimizer(), graph);
                   }});
  steps.push_back({"Wide & Deep, 65,536 samples", [](DType precision, Graph* graph) {
                     WideAndDeepConfig config = WideAndDeepOfStep(1000000);
                     config.batch = 65536;
                     config.precision.compute = precision;
                     return BuildWideAndDeepTrain(config, WideAndDeepOptimizer(), graph);
                   }});
  return steps;
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

absl::StatusOr<Times> TimesOf(const Step& step, DType precision, const Machine& machine) {
  Graph graph;
  RETURN_IF_ERROR(step.build(precision, &graph));
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

absl::Status Print() {
  ASSIGN_OR_RETURN(const Machine machine, MachineOf(absl::GetFlag(FLAGS_gpu)));
  const double launch = absl::GetFlag(FLAGS_launch_microseconds);
  RETURN_IF_ERROR(CheckFlag("launch_microseconds", launch, 0, 1000));
  absl::PrintF(
      "| step on one %s | TFLOP | GB moved | products | all else | limit | launches | "
      "launching | memory |\n|---|---|---|---|---|---|---|---|---|\n",
      absl::GetFlag(FLAGS_gpu));
  for (const Step& step : Steps()) {
    for (const DType precision : {DType::kF32, DType::kBF16}) {
      absl::StatusOr<Times> times = TimesOf(step, precision, machine);
      if (!times.ok()) return AddContext(times.status(), step.name);
      const double products = static_cast<double>(times->products) / 1e6,
                   others = static_cast<double>(times->others) / 1e6;
      absl::PrintF(
          "| %s, %s | %.3f | %.1f | %.2f ms | %.2f ms | %.2f ms | %d | %.2f ms | %.2f GB |\n",
          step.name, DTypeName(precision), static_cast<double>(times->flops) / 1e12,
          static_cast<double>(times->bytes) / 1e9, products, others, products + others,
          times->instructions, static_cast<double>(times->instructions) * launch / 1e3,
          static_cast<double>(times->memory) / 1e9);
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
       {{"Flags", {{"gpu", "NAME", ""}, {"launch_microseconds", "X", ""}}}},
       {},
       sluice::Print},
      argc, argv);
}
