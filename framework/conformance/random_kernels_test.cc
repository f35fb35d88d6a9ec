// Random models in f32 on the CPU's own kernels, under the test's executor: memory starts as NaN,
// shards are uneven, empty and of extent 1.
#include <string>
#include <vector>

#include "framework/base/status.h"
#include "framework/compiler/compile.h"
#include "framework/testing/parallel.h"
#include "framework/testing/parity.h"
#include "framework/testing/random_graph.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

constexpr int kGraphs = 600;
constexpr int kSteps = 2;
// Rounding in f32, carried through up to fifteen layers, two steps and an optimizer: nearly always
// below 2e-6, 2e-4 at worst.
constexpr double kTolerance = 1e-3;

absl::Status Check(int seed, bool* refused) {
  ASSIGN_OR_RETURN(const RandomGraph random, MakeRandomGraph(seed, kSteps, DType::kF32));
  CompileOptions options;
  options.mesh = random.mesh;
  options.micro_batches = random.micro_batches;
  options.script_length = random.script_length;
  options.machine = Machine::Cpu();
  const auto plan = Compile({{"train", random.graph.get()}}, options, nullptr);
  *refused = absl::IsInvalidArgument(plan.status());
  if (*refused) return absl::OkStatus();
  RETURN_IF_ERROR(plan.status());
  ASSIGN_OR_RETURN(const InterpretedSteps reference,
                   InterpretSteps(*random.graph, random.feeds, 7));
  PlanExecutorOptions run;
  run.seed = 7;
  run.interleaving = seed;
  run.prepare = PrepareCpuKernel;
  return CompareWithReference(*plan, random.feeds, reference, kTolerance, run);
}

TEST(RandomKernelsTest, EqualTheInterpreter) {
  std::vector<std::string> failures(kGraphs);
  std::vector<char> refused(kGraphs);
  ParallelFor(kGraphs, [&](int seed) {
    bool no = false;
    const absl::Status status = Check(seed, &no);
    refused[seed] = no;
    if (!status.ok()) failures[seed] = status.ToString();
  });
  int refusals = 0;
  for (int seed = 0; seed < kGraphs; ++seed) {
    refusals += refused[seed];
    EXPECT_EQ(failures[seed], "") << "seed " << seed;
  }
  EXPECT_LE(refusals, kGraphs / 20);
}

}  // namespace
}  // namespace sluice
