#include "bench/layout_timing.h"

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "bench/gpt_batch.h"
#include "bench/quantiles.h"
#include "framework/base/status.h"
#include "framework/compiler/compile.h"
#include "framework/kernels/cpu/library_call.h"
#include "framework/kernels/kernel.h"
#include "framework/plan/kinds.h"
#include "framework/runtime/trace.h"
#include "framework/session/plan_session.h"
#include "framework/sim/prediction.h"
#include "models/gpt/presets.h"
#include "nlohmann/json.hpp"

namespace sluice {
namespace {

constexpr char kWaiting[] = "waiting";
constexpr int kPredictedSteps = 5, kTracedSteps = 4;

int Workers(const TimedLayout& layout) { return static_cast<int>(layout.predicted().busy.size()); }

absl::StatusOr<std::unique_ptr<Session>> Start(const TimedLayout& layout,
                                               const std::string& trace) {
  RuntimeOptions options;
  options.prepare = PrepareCpuKernel;
  options.init_thread = InitKernelThread;
  options.trace = trace;
  return StartPlan(layout.plan(), options);
}

// Nanoseconds of a step, with the session as far ahead as it may be.
absl::StatusOr<double> TimeSteps(Session* session, const Feeds& feeds, int64_t steps) {
  constexpr int64_t kAhead = Session::kStepsAhead;
  Fetches fetches;
  int64_t begin = 0;
  for (int64_t i = 0; i < steps + kAhead; ++i) {
    RETURN_IF_ERROR(session->Step("train", feeds));
    if (i + 1 < kAhead) continue;
    RETURN_IF_ERROR(session->Next(&fetches));
    if (i + 1 == kAhead) begin = NowNanoseconds();  // at the end of the first step
  }
  const int64_t end = NowNanoseconds();
  RETURN_IF_ERROR(session->Next(&fetches));
  return static_cast<double>(end - begin) / static_cast<double>(steps);
}

// Adds what each op took to the measured side.
absl::Status ReadTrace(const std::string& path, LayoutTiming* timing) {
  std::ifstream file(path);
  const nlohmann::json trace = nlohmann::json::parse(file, nullptr, false);
  if (!trace.is_object()) return absl::DataLossError(absl::StrCat(path, " is no trace"));
  // TimeSteps runs as many more as it is ahead; the first is left out.
  constexpr int kSteps = kTracedSteps + Session::kStepsAhead - 1;
  for (const nlohmann::json& event : trace["traceEvents"]) {
    if (event.value("cat", "") != "run" || event["args"]["step"] == 0) continue;
    timing->ops[event["args"]["op"].get<std::string>()].measured +=
        event["dur"].get<double>() * 1e3 / kSteps;
  }
  return absl::OkStatus();
}

void AddPredicted(const TimedLayout& layout, LayoutTiming* timing) {
  const plan::Program& program = layout.plan().programs(0);
  double busy = 0;
  for (const WorkerSpan& span : layout.predicted().spans) {
    if (span.step == 0) continue;
    const double time = static_cast<double>(span.end - span.begin) / (kPredictedSteps - 1);
    const plan::Instruction& instruction = program.actors(span.actor).script(span.instruction);
    timing->ops[InstructionName(instruction)].predicted += time;
    busy += time;
  }
  double measured = 0;
  for (const auto& op : timing->ops) measured += op.second.measured;
  timing->ops[kWaiting] = {
      Workers(layout) * static_cast<double>(layout.predicted().step_nanoseconds) - busy,
      Workers(layout) * timing->median - measured};
}

absl::Status TraceOps(const TimedLayout& layout, const Feeds& feeds, LayoutTiming* timing) {
  std::error_code error;
  const std::string path = (std::filesystem::temp_directory_path(error) /
                            absl::StrCat("sluice_predict_", getpid(), ".json"))
                               .string();
  const auto run = [&]() -> absl::Status {  // the session's end writes the file
    ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, Start(layout, path));
    return TimeSteps(session.get(), feeds, kTracedSteps).status();
  };
  absl::Status status = run();
  if (status.ok()) status = ReadTrace(path, timing);
  std::remove(path.c_str());
  RETURN_IF_ERROR(status);
  AddPredicted(layout, timing);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TimedLayout> TimedLayout::Compile(const std::string& model, const std::string& mesh,
                                                 int64_t micro_batches, const Machine& machine) {
  TimedLayout layout;
  layout.model_ = model;
  layout.name_ = mesh;
  if (micro_batches > 1) absl::StrAppend(&layout.name_, " micro=", micro_batches);
  bool found = false;
  for (const GptPreset& preset : GptPresets()) {
    if (preset.name == model) layout.config_ = preset.config, found = true;
  }
  if (!found) return absl::InvalidArgumentError(absl::StrCat("no preset \"", model, "\""));
  CompileOptions options;
  ASSIGN_OR_RETURN(options.mesh, Mesh::Parse(mesh));
  options.micro_batches = micro_batches;
  options.machine = machine;
  OptimizerOptions optimizer;
  optimizer.weight_decay = 0.1;
  optimizer.clip = 1;
  Graph graph;
  RETURN_IF_ERROR(BuildGptTrain(layout.config_, optimizer, &graph));
  const std::vector<ProgramGraph> programs = {{"train", &graph}};
  ASSIGN_OR_RETURN(layout.plan_, sluice::CompilePlan(programs, options));
  ASSIGN_OR_RETURN(layout.predicted_,
                   PredictSteps(layout.plan_.programs(0), layout.plan_.devices_size(), machine,
                                kPredictedSteps));
  return layout;
}

absl::StatusOr<std::vector<LayoutTiming>> TimeLayouts(const std::vector<TimedLayout>& layouts,
                                                      int64_t rounds, int64_t steps_a_round) {
  if (rounds < 1 || steps_a_round < 1) {
    return absl::InvalidArgumentError(absl::StrCat("expected at least one round of one step, got ",
                                                   rounds, " of ", steps_a_round));
  }
  std::vector<GptBatch> batches;
  std::vector<std::unique_ptr<Session>> sessions;
  for (const TimedLayout& layout : layouts) {
    batches.emplace_back(layout.config());
    ASSIGN_OR_RETURN(sessions.emplace_back(), Start(layout, ""));
  }
  std::vector<std::vector<double>> times(layouts.size());
  for (int64_t round = 0; round <= rounds; ++round) {
    for (size_t i = 0; i < layouts.size(); ++i) {
      ASSIGN_OR_RETURN(const double time,
                       TimeSteps(sessions[i].get(), batches[i].StepFeeds(1), steps_a_round));
      if (round > 0) times[i].push_back(time);  // the first warms up
    }
  }
  sessions.clear();
  std::vector<LayoutTiming> timings(layouts.size());
  for (size_t i = 0; i < layouts.size(); ++i) {
    timings[i].median = Median(std::move(times[i]));
    RETURN_IF_ERROR(TraceOps(layouts[i], batches[i].StepFeeds(1), &timings[i]));
  }
  return timings;
}

}  // namespace sluice
