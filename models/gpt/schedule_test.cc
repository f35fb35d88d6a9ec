// What the compiler's schedule is for, held on compiled plans of the tiny GPT and not on plans
// written by hand: one forward, one backward; a pipeline with little more than its bubble; and a
// reduction that the backward pass hides. Times are those of the virtual clock, where each stream
// of a device is a processor of its own.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/actor/virtual_clock.h"
#include "framework/compiler/compile.h"
#include "framework/plan/program_index.h"
#include "gtest/gtest.h"
#include "models/gpt/gpt.h"
#include "models/gpt/parity_layouts.h"

namespace sluice {
namespace {

// Without clip: a norm of all gradients would stand between the last backward and every update.
plan::Program CompileTrain(const GptLayout& layout, const GptConfig& config) {
  Graph graph;
  const absl::Status built = BuildGptTrain(config, AdamWWithoutClip().optimizer, &graph);
  EXPECT_TRUE(built.ok()) << built;
  CompileOptions options;
  options.mesh = *Mesh::Parse(layout.mesh);
  options.micro_batches = layout.micro_batches;
  const auto plan = CompilePlan({{"train", &graph}}, options);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.ok() ? plan->programs(0) : plan::Program();
}

// The only actor of a device with this name and as many firings a step.
const plan::Actor* FindActor(const plan::Program& program, absl::string_view name, int firings) {
  const plan::Actor* found = nullptr;
  for (const plan::Actor& actor : program.actors()) {
    if (actor.name() != name || actor.firings_per_step() != firings) continue;
    EXPECT_EQ(found, nullptr) << name;
    found = &actor;
  }
  EXPECT_NE(found, nullptr) << name;
  return found;
}

int64_t ScriptTime(const plan::Actor& actor) {
  int64_t time = 0;
  for (const plan::Instruction& instruction : actor.script()) time += instruction.nanoseconds();
  return time;
}

ClockResult RunOneStep(const plan::Program& program) {
  const auto index = ProgramIndex::Build(program);
  EXPECT_TRUE(index.ok()) << index.status();
  const auto run = RunClock(*index);
  EXPECT_TRUE(run.ok()) << run.status();
  return *run;
}

constexpr int kStages = 4, kMicro = 8;

plan::Program CompilePipeline() {
  const GptLayout layout = {"pipe=4", kMicro};
  return CompileTrain(layout, layout.Config());
}

// "F0 F1 B0 ...": the order in which a stage's forward and backward scripts end. They may begin
// earlier with what waits for nothing, so their beginnings say little.
std::string ForwardsAndBackwards(const plan::Program& program, int stage) {
  const std::string forward = absl::StrCat("d", stage, ".forward");
  const std::string backward = absl::StrCat("d", stage, ".backward");
  std::string text;
  for (const plan::Stream& stream : program.streams()) {
    if (stream.kind() != plan::STREAM_COMPUTE || stream.device() != stage) continue;
    for (const plan::ScheduleEntry& entry : stream.order()) {
      const plan::Actor& actor = program.actors(entry.actor());
      const bool forwards = actor.name() == forward, backwards = actor.name() == backward;
      if (entry.to() != actor.script_size() || (!forwards && !backwards)) continue;
      absl::StrAppend(&text, forwards ? "F" : "B", entry.firing(), " ");
    }
  }
  return text;
}

TEST(ScheduleTest, ACompiledPipelineRunsOneForwardOneBackward) {
  const plan::Program program = CompilePipeline();
  for (int stage = 0; stage < kStages; ++stage) {
    const int ahead = kStages - stage;  // forwards before the first backward
    std::string expected;
    for (int f = 0; f < ahead; ++f) absl::StrAppend(&expected, "F", f, " ");
    for (int b = 0; b < kMicro; ++b) {
      absl::StrAppend(&expected, "B", b, " ");
      if (b + ahead < kMicro) absl::StrAppend(&expected, "F", b + ahead, " ");
    }
    EXPECT_EQ(ForwardsAndBackwards(program, stage), expected) << "stage " << stage;
  }
}

// No schedule is faster than the slowest stage with all its work, behind the first forwards of the
// stages before it and before the last backwards of them; the updates of a stage follow.
int64_t IdealTime(const plan::Program& program) {
  int64_t ideal = 0, before = 0, update = 0;
  for (int stage = 0; stage < kStages; ++stage) {
    const auto name = [&](absl::string_view phase) { return absl::StrCat("d", stage, phase); };
    const int64_t once = ScriptTime(*FindActor(program, name(".forward"), kMicro)) +
                         ScriptTime(*FindActor(program, name(".backward"), kMicro));
    ideal = std::max(ideal, before + kMicro * once);
    before += once;
    update = std::max(update, ScriptTime(*FindActor(program, name(".update.once"), 1)));
  }
  return ideal + update;
}

TEST(ScheduleTest, ACompiledPipelineTakesLittleMoreThanItsBubble) {
  const plan::Program program = CompilePipeline();
  const double ideal = static_cast<double>(IdealTime(program));
  const double time = static_cast<double>(RunOneStep(program).makespan);
  std::printf("pipe=4, 8 micro-batches: %.3f ms, %.4f of the ideal\n", time / 1e6, time / ideal);
  EXPECT_LE(time, 1.1 * ideal);
  EXPECT_GE(time, 0.99 * ideal);
}

TEST(ScheduleTest, ACompiledDataParallelStepHidesHalfOfItsReduction) {
  const GptLayout layout = {"data=2"};
  plan::Program program = CompileTrain(layout, layout.Config());
  const int64_t with = RunOneStep(program).makespan;
  int64_t reduction = 0;
  for (plan::Actor& actor : *program.mutable_actors()) {
    for (plan::Instruction& instruction : *actor.mutable_script()) {
      if (instruction.wire_bytes() == 0) continue;
      if (program.streams(actor.stream()).device() == 0) reduction += instruction.nanoseconds();
      instruction.set_nanoseconds(0);
    }
  }
  const int64_t without = RunOneStep(program).makespan;
  std::printf("data=2: %.3f ms of which reductions show %.3f, and take %.3f\n",
              static_cast<double>(with) / 1e6, static_cast<double>(with - without) / 1e6,
              static_cast<double>(reduction) / 1e6);
  EXPECT_GT(reduction, with / 50);  // there is something to hide
  EXPECT_LE(with - without, reduction / 2);
}

}  // namespace
}  // namespace sluice
