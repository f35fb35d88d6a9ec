#include "framework/testing/simulated_task.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/checkpoint/box_copy.h"
#include "framework/checkpoint/checkpoint.h"
#include "framework/compiler/compile.h"
#include "framework/kernels/cpu/library_call.h"
#include "framework/kernels/kernel.h"
#include "framework/session/plan_session.h"
#include "framework/testing/models.h"
#include "framework/testing/random_graph.h"

namespace sluice {
namespace {

constexpr int64_t kSteps = 4;

MlpOptions Model() {
  MlpOptions model;
  model.batch = 12;
  model.widths = {3, 4, 2};
  model.annotation = MegatronAnnotations(2);
  return model;
}

absl::StatusOr<Fetches> ReadVariables(Session* session) {
  Fetches values;
  for (const VariableInfo& variable : session->variables()) {
    ASSIGN_OR_RETURN(values[variable.name], session->Read(variable.name));
  }
  return values;
}

absl::Status RunUndisturbed(plan::Plan plan, SimulatedTask* task) {
  ASSIGN_OR_RETURN(const auto session, StartPlan(std::move(plan), SimulatedRuntimeOptions()));
  ASSIGN_OR_RETURN(Fetches initial, ReadVariables(session.get()));
  task->variables.push_back(std::move(initial));
  for (int64_t step = 0; step < task->steps(); ++step) {
    HostTensor rate(DType::kF32, {}), count(DType::kI32, {});
    *rate.data<float>() = static_cast<float>(LearningRate(task->schedule, step));
    *count.data<int32_t>() = static_cast<int32_t>(step + 1);
    Feeds feeds = {{"learning_rate", &rate}, {"step", &count}};
    for (const auto& [name, tensor] : task->inputs[step]) feeds.emplace_back(name, &tensor);
    RETURN_IF_ERROR(session->Step("train", feeds));
    ASSIGN_OR_RETURN(Fetches fetches, session->Next());
    task->losses.push_back(*fetches["loss"].data<float>());
    ASSIGN_OR_RETURN(Fetches after, ReadVariables(session.get()));
    task->variables.push_back(std::move(after));
  }
  return session->Close();
}

// The part of a whole tensor that lies in the box.
std::vector<std::byte> PartOf(const HostTensor& whole, const Box& box) {
  const auto size = static_cast<int64_t>(SizeOf(whole.dtype));
  std::vector<std::byte> part(Volume(box) * size);
  if (part.empty()) return part;
  BoxCopy(WholeBox(whole.shape), box, size, part.data())
      .Add(absl::MakeConstSpan(whole.bytes.data(), whole.bytes.size()));
  return part;
}

// Compiles the graph for all ranks, and runs it on one.
absl::Status Complete(const Graph& graph, const Mesh& mesh, CompileOptions options, int32_t ranks,
                      SimulatedTask* task) {
  absl::StrAppend(&task->name, ", ", ranks, " ranks");
  task->schedule = {.peak = 0.0625, .warmup = 0, .steps = kSteps, .floor_fraction = 1};
  // What the trainer feeds itself.
  for (auto& inputs : task->inputs) {
    inputs.erase(std::remove_if(inputs.begin(), inputs.end(),
                                [](const auto& input) {
                                  return input.first == "learning_rate" || input.first == "step";
                                }),
                 inputs.end());
  }
  const std::vector<ProgramGraph> programs = {{"train", &graph}};
  options.machine = Machine::Cpu();
  for (int32_t rank = 0; rank < ranks; ++rank) {
    options.mesh = mesh.OverRanks(ranks);
    options.rank = rank;
    options.ranks = ranks;
    ASSIGN_OR_RETURN(plan::Plan plan, CompilePlan(programs, options));
    task->plans.push_back(std::move(plan));
  }
  options.mesh = mesh.OverRanks(1);
  options.rank = 0;
  options.ranks = 1;
  ASSIGN_OR_RETURN(plan::Plan plan, CompilePlan(programs, options));
  return RunUndisturbed(std::move(plan), task);
}

}  // namespace

RuntimeOptions SimulatedRuntimeOptions() {
  RuntimeOptions options;
  options.workers = 1;
  options.threads_per_device = 1;
  options.prepare = PrepareCpuKernel;
  options.init_thread = InitKernelThread;
  return options;
}

absl::StatusOr<SimulatedTask> MakeMlpTask(const std::string& mesh, int64_t micro_batches,
                                          int32_t ranks) {
  SimulatedTask task;
  task.name = absl::StrCat("mesh ", mesh, ", micro_batches ", micro_batches);
  task.batch = Model().batch;
  for (int64_t step = 0; step < kSteps; ++step) task.inputs.push_back(MlpBatch(Model(), step, 0));
  Graph graph;
  RETURN_IF_ERROR(BuildMlp(&graph, Model()));
  ASSIGN_OR_RETURN(const Mesh parsed, Mesh::Parse(mesh));
  CompileOptions options;
  options.micro_batches = micro_batches;
  RETURN_IF_ERROR(Complete(graph, parsed, options, ranks, &task));
  return task;
}

absl::StatusOr<SimulatedTask> MakeRandomTask(uint64_t seed, int32_t ranks) {
  ASSIGN_OR_RETURN(const RandomGraph random, MakeRandomGraph(seed, kSteps, DType::kF32));
  SimulatedTask task;
  task.name = absl::StrCat("random graph ", seed);
  task.batch = 1;
  for (const HostTensorMap& feeds : random.feeds) {
    task.inputs.emplace_back(feeds.begin(), feeds.end());
  }
  CompileOptions options;
  options.micro_batches = random.micro_batches;
  options.script_length = random.script_length;
  RETURN_IF_ERROR(Complete(*random.graph, random.mesh, options, ranks, &task));
  return task;
}

absl::Status CheckVariables(const SimulatedTask& task, int64_t steps, Session* session) {
  for (const VariableInfo& variable : session->variables()) {
    ASSIGN_OR_RETURN(const std::vector<VariableBox> boxes, session->boxes(variable.name));
    for (const VariableBox& each : boxes) {
      ASSIGN_OR_RETURN(const HostTensor value, session->ReadBox(variable.name, each.box));
      if (value.bytes == PartOf(task.variables[steps].at(variable.name), each.box)) continue;
      return absl::DataLossError(absl::StrCat(variable.name, BoxToString(each.box), " after ",
                                              steps,
                                              " steps: expected what an undisturbed run gives"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckCheckpoint(const SimulatedTask& task, const std::string& path) {
  ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::Load(path));
  for (const TensorEntry& tensor : checkpoint.tensors()) {
    ASSIGN_OR_RETURN(const HostTensor value, checkpoint.Read(tensor.name));
    if (value.bytes == task.variables[checkpoint.meta().step].at(tensor.name).bytes) continue;
    return absl::DataLossError(absl::StrCat(path, ": ", tensor.name,
                                            ": expected what an undisturbed run gives after ",
                                            checkpoint.meta().step, " steps"));
  }
  return absl::OkStatus();
}

}  // namespace sluice
