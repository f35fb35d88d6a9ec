#include "framework/compiler/compile.h"

#include <time.h>

#include <algorithm>

#include <cstdio>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "framework/base/status.h"
#include "framework/plan/decisions.h"
#include "framework/sim/prediction.h"
#include "framework/testing/models.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

struct Compiled {
  plan::Plan plan;
  double seconds = 0;
};

// A deep MLP on "data=... model=2 pipe=2" and the like.
absl::StatusOr<Compiled> CompileMlp(const std::string& mesh, int64_t batch, int layers,
                                    bool representatives_only,
                                    const Machine& machine = Machine::Cpu()) {
  CompileOptions options;
  ASSIGN_OR_RETURN(options.mesh, Mesh::Parse(mesh));
  options.machine = machine;
  options.representatives_only = representatives_only;
  MlpOptions model;
  model.batch = batch;
  model.widths.assign(layers + 1, 64);
  model.annotation = MegatronAnnotations(layers);
  model.optimizer.clip = 1;
  Graph graph;
  RETURN_IF_ERROR(BuildMlp(&graph, model));
  const auto begin = std::chrono::steady_clock::now();
  Compiled compiled;
  ASSIGN_OR_RETURN(compiled.plan, CompilePlan({{"train", &graph}}, options));
  compiled.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return compiled;
}

// Time and bytes are those of the whole, on small meshes and on large ones, even and uneven.
TEST(CompileTest, RepresentativesKnowTimeAndBytesOfAll) {
  for (const char* mesh : {"data=8", "data=4 model=2 pipe=2", "data=3 model=2", "data=5 pipe=2",
                           "data=128", "data=32 model=2 pipe=2"}) {
    SCOPED_TRACE(mesh);
    const auto whole = CompileMlp(mesh, 256, 4, false), few = CompileMlp(mesh, 256, 4, true);
    ASSERT_TRUE(whole.ok()) << whole.status();
    ASSERT_TRUE(few.ok()) << few.status();
    EXPECT_EQ(few->plan.programs(0).predicted_nanoseconds(),
              whole->plan.programs(0).predicted_nanoseconds());
    ASSERT_EQ(few->plan.devices_size(), whole->plan.devices_size());
    for (int d = 0; d < whole->plan.devices_size(); ++d) {
      EXPECT_EQ(few->plan.devices(d).SerializeAsString(),
                whole->plan.devices(d).SerializeAsString())
          << "device " << d;
    }
    EXPECT_LE(few->plan.programs(0).actors_size(), whole->plan.programs(0).actors_size());
  }
}

// The second of four ranks of one device each, on these hosts.
absl::StatusOr<plan::Plan> CompileRank(const std::vector<int32_t>& host_of_rank, double rate) {
  CompileOptions options;
  ASSIGN_OR_RETURN(options.mesh, Mesh::Parse("data=4"));
  options.ranks = 4, options.rank = 1;
  options.mesh = options.mesh.OverRanks(4);
  options.machine.host_of_rank = host_of_rank;
  options.machine.link(LinkKind::kNetwork).bytes_per_second = rate;
  MlpOptions model;
  model.batch = 64;
  Graph graph;
  RETURN_IF_ERROR(BuildMlp(&graph, model));
  return CompilePlan({{"train", &graph}}, options);
}

TEST(CompileTest, AStepTakesAsLongAsItsLinks) {
  const auto together = CompileRank({0, 0, 0, 0}, 1e9), apart = CompileRank({0, 0, 1, 1}, 1e9);
  const auto slow = CompileRank({0, 0, 1, 1}, 1e7);
  ASSERT_TRUE(together.ok() && apart.ok() && slow.ok()) << slow.status();
  const auto time = [](const auto& plan) { return plan->programs(0).predicted_nanoseconds(); };
  EXPECT_LT(time(together), time(apart));
  EXPECT_LT(time(apart), time(slow));
}

// Two ranks that each measured for themselves, or see other hosts, do not begin to train.
TEST(CompileTest, RanksThatWereToldOfOtherLinksNameThem) {
  const auto mine = CompileRank({0, 0, 1, 1}, 1e9);
  ASSERT_TRUE(mine.ok()) << mine.status();
  for (const auto& theirs : {CompileRank({0, 0, 1, 1}, 2e9), CompileRank({0, 1, 0, 1}, 1e9)}) {
    ASSERT_TRUE(theirs.ok()) << theirs.status();
    const absl::Status status = CompareDecisions(DecisionsText(*mine), DecisionsText(*theirs));
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_NE(std::string(status.message()).find(" links\""), std::string::npos) << status;
  }
  EXPECT_EQ(CompileRank({0, 0, 1}, 1e9).status().code(), absl::StatusCode::kInvalidArgument);
}

// Devices of one process share its cores, alike or not.
TEST(CompileTest, ThePredictionOfACalibratedMachineKnowsItsCores) {
  Machine machine = Machine::Cpu();
  machine.cores = 1;
  for (const char* mesh : {"data=1", "data=2", "data=4", "data=2 pipe=2", "pipe=2"}) {
    SCOPED_TRACE(mesh);
    const auto compiled = CompileMlp(mesh, 64, 4, false, machine);
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    const plan::Program& program = compiled->plan.programs(0);
    const auto run = PredictSteps(program, compiled->plan.devices_size(), machine);
    ASSERT_TRUE(run.ok()) << run.status();
    EXPECT_EQ(program.predicted_nanoseconds(), run->step_nanoseconds);
  }
}

TEST(CompileTest, TimeDoesNotGrowWithDevices) {
  const auto few = CompileMlp("data=2 model=2 pipe=2", 1024, 48, true);
  const auto many = CompileMlp("data=256 model=2 pipe=2", 1024, 48, true);
  ASSERT_TRUE(few.ok()) << few.status();
  ASSERT_TRUE(many.ok()) << many.status();
  EXPECT_EQ(many->plan.devices_size(), 1024);
  EXPECT_EQ(many->plan.programs(0).streams_size(), few->plan.programs(0).streams_size());
  // It is about 1; 128 times the devices in 3 times the time is no accident of a busy machine.
  EXPECT_LT(many->seconds, 3 * few->seconds + 0.1);
}

// What does not fit is known as soon as the bytes of representatives are, which is the same for few
// devices and for many, and the plan is that of representatives, to be explained.
TEST(CompileTest, WhatDoesNotFitIsKnownBeforeThePlanGrows) {
  MlpOptions model;
  model.batch = 64;
  model.annotation = MegatronAnnotations(3);
  Graph graph;
  ASSERT_EQ(BuildMlp(&graph, model), absl::OkStatus());
  CompileOptions options;
  options.mesh = *Mesh::Parse("data=16 model=2");
  options.machine = Machine::Cpu();
  std::vector<std::string> phases;
  options.phase_end = [&](absl::string_view phase) { phases.push_back(std::string(phase)); };
  std::vector<int64_t> told;
  bool fits = true;
  options.fits = [&](const plan::Plan& plan) {
    told.clear();
    for (const plan::Device& device : plan.devices()) told.push_back(device.memory_bytes());
    return fits;
  };
  const auto whole = Compile({{"train", &graph}, {"again", &graph}}, options);
  ASSERT_EQ(whole.status(), absl::OkStatus());
  EXPECT_FALSE(whole->plan.representatives_only());
  ASSERT_EQ(told.size(), 32u);
  for (int d = 0; d < 32; ++d) EXPECT_EQ(told[d], whole->plan.devices(d).memory_bytes());
  EXPECT_EQ(std::count(phases.begin(), phases.end(), "lower rank"), 2);
  phases.clear();
  fits = false;
  const auto refused = Compile({{"train", &graph}, {"again", &graph}}, options);
  ASSERT_EQ(refused.status(), absl::OkStatus());
  EXPECT_TRUE(refused->plan.representatives_only());
  EXPECT_EQ(std::count(phases.begin(), phases.end(), "lower rank"), 0);
  options.fits = nullptr;
  options.representatives_only = true;
  const auto representatives = Compile({{"train", &graph}, {"again", &graph}}, options);
  ASSERT_EQ(representatives.status(), absl::OkStatus());
  EXPECT_EQ(refused->plan.variables_size(), representatives->plan.variables_size());
  EXPECT_EQ(refused->plan.variables(0).shards_size(), 1);
  for (int d = 0; d < 32; ++d) {
    EXPECT_EQ(refused->plan.devices(d).SerializeAsString(),
              representatives->plan.devices(d).SerializeAsString());
  }
}

// Ctrl-C: each phase that may be long asks many times, not only at its end.
TEST(CompileTest, PhasesAskWhetherTheyAreWanted) {
  MlpOptions model;
  model.batch = 64;
  model.widths.assign(41, 16);
  Graph graph;
  ASSERT_EQ(BuildMlp(&graph, model), absl::OkStatus());
  CompileOptions options;
  options.mesh = *Mesh::Parse("data=4");
  options.machine = Machine::Cpu();
  options.machine.cores = 2;
  std::map<std::string, int> asked;
  int asks = 0;
  options.stop = [&] { return ++asks < 0; };
  options.phase_end = [&](absl::string_view phase) {
    asked[std::string(phase)] += std::exchange(asks, 0);
  };
  ASSERT_EQ(CompilePlan({{"train", &graph}}, options).status(), absl::OkStatus());
  for (const char* phase : {"select", "lower", "schedule", "order", "pack", "prove", "lower rank",
                            "schedule rank", "check"}) {
    EXPECT_GT(asked[phase], 10) << phase;
  }
  // The one before it ends with an ask.
  EXPECT_GT(asked["predict"], 100);
  EXPECT_GE(asked["pack rank"], 4);
  EXPECT_GE(asked["digest"], 4);
}

// Seconds that this thread has computed: what else runs on the machine does not count.
double ThreadSeconds() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// The longest stretch without an ask that ended in each phase, of the whole of one compile.
std::map<std::string, double> Stretches(const Graph& graph) {
  CompileOptions options;
  options.mesh = *Mesh::Parse("data=2 model=2");
  options.machine = Machine::Cpu();
  const double start = ThreadSeconds();
  double asked = start, longest = 0;
  std::map<std::string, double> stretches;
  options.stop = [&] {
    const double now = ThreadSeconds();
    longest = std::max(longest, now - asked);
    asked = now;
    return false;
  };
  options.phase_end = [&](absl::string_view phase) {
    stretches[std::string(phase)] = std::exchange(longest, 0);
  };
  EXPECT_EQ(CompilePlan({{"train", &graph}}, options).status(), absl::OkStatus());
  const double whole = ThreadSeconds() - start;
  for (auto& [phase, stretch] : stretches) stretch /= whole;
  return stretches;
}

// Ctrl-C: what compiles for seconds asks all the time whether it is wanted. A stretch without a
// look is held against the whole, whatever the build and the machine. One may meet page faults or a
// stolen processor that others do not, so a phase has the shortest of three compiles. To free what
// was compiled takes an eighth of the whole and asks nobody; a process that is told to stop does
// not free it.
TEST(CompileTest, ALongCompileAsksAllTheTime) {
  constexpr double kSoon = 0.2;
  MlpOptions model;
  model.widths.assign(301, 16);
  model.annotation = MegatronAnnotations(300);
  Graph graph;
  ASSERT_EQ(BuildMlp(&graph, model), absl::OkStatus());
  std::map<std::string, double> shortest = Stretches(graph);
  for (int again = 0; again < 2; ++again) {
    for (const auto& [phase, stretch] : Stretches(graph)) {
      shortest[phase] = std::min(shortest[phase], stretch);
    }
  }
  for (const auto& [phase, stretch] : shortest) {
    EXPECT_LT(stretch, kSoon) << phase;
    std::printf("%s: %.3f of the whole\n", phase.c_str(), stretch);
  }
}

// What is told to stop as the first phase runs, or as any later one begins, is Cancelled.
TEST(CompileTest, EveryPhaseCanBeStopped) {
  MlpOptions model;
  model.widths.assign(21, 16);
  model.annotation = MegatronAnnotations(20);
  Graph graph;
  ASSERT_EQ(BuildMlp(&graph, model), absl::OkStatus());
  CompileOptions options;
  options.mesh = *Mesh::Parse("data=2 model=2");
  options.machine = Machine::Cpu();
  for (const char* phase : {"", "select", "lower", "schedule", "order", "pack", "prove", "predict",
                            "lower rank", "schedule rank", "expand", "pack rank", "check"}) {
    SCOPED_TRACE(phase);
    bool is_told = *phase == '\0';
    std::string last = phase;
    options.phase_end = [&](absl::string_view ended) {
      if (is_told) last = std::string(ended);
      is_told = is_told || ended == phase;
    };
    options.stop = [&] { return is_told; };
    EXPECT_EQ(CompilePlan({{"train", &graph}}, options).status().code(),
              absl::StatusCode::kCancelled);
    EXPECT_EQ(last, phase) << "it went on to the end of that phase";
  }
}

}  // namespace
}  // namespace sluice
