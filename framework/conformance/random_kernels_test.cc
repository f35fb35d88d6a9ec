// Random models in f32 on the CPU's own kernels, run in two ways: under the test's executor, where
// memory starts as NaN and the order is random, and by the product's own runtime, with workers and
// loaded programs. Shards are uneven, empty and of extent 1.
#include <cstdio>
#include <string>
#include <vector>

#include "framework/base/status.h"
#include "framework/compiler/compile.h"
#include "framework/kernels/cpu/library_call.h"
#include "framework/kernels/kernel.h"
#include "framework/session/plan_session.h"
#include "framework/testing/parallel.h"
#include "framework/testing/parity.h"
#include "framework/testing/random_graph.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

constexpr int kGraphs = 600;
constexpr int kSteps = 2;
// Rounding in f32, carried through up to fifteen layers, two steps and an optimizer: of 4,000
// graphs one in a hundred is off by more than kUsual, and none by more than kWorst.
constexpr double kUsual = 2e-6, kWorst = 1e-3;

struct Outcome {
  bool refused = false, unusual = false;
  std::string failure;
};

// Compares by `compare(tolerance)`, and more strictly once more.
template <typename F>
absl::Status Compare(Outcome* outcome, const F& compare) {
  const absl::Status status = compare(kUsual);
  if (status.ok()) return status;
  outcome->unusual = true;
  return compare(kWorst);
}

absl::Status Check(int seed, Outcome* outcome) {
  ASSIGN_OR_RETURN(const RandomGraph random, MakeRandomGraph(seed, kSteps, DType::kF32));
  CompileOptions options;
  options.mesh = random.mesh;
  options.micro_batches = random.micro_batches;
  options.script_length = random.script_length;
  if (seed % 2 == 0) options.least_taken = 0;  // all of these tensors are small
  options.machine = Machine::Cpu();
  const auto plan = CompilePlan({{"train", random.graph.get()}}, options);
  // For the reasons of random_graphs_test.
  outcome->refused =
      absl::IsInvalidArgument(plan.status()) || absl::IsFailedPrecondition(plan.status());
  if (outcome->refused) return absl::OkStatus();
  RETURN_IF_ERROR(plan.status());
  ASSIGN_OR_RETURN(const InterpretedSteps reference,
                   InterpretSteps(*random.graph, random.feeds, 7));
  RETURN_IF_ERROR(Compare(outcome, [&](double tolerance) {
    PlanExecutorOptions run;
    run.seed = 7;
    run.interleaving = seed;
    run.prepare = PrepareCpuKernel;
    return CompareWithReference(*plan, random.feeds, reference, tolerance, run);
  }));
  return AddContext(Compare(outcome,
                            [&](double tolerance) -> absl::Status {
                              RuntimeOptions run;
                              run.seed = 7;
                              run.workers = 1 + seed % 3;
                              run.threads_per_device = 2;
                              run.prepare = PrepareCpuKernel;
                              run.init_thread = InitKernelThread;
                              ASSIGN_OR_RETURN(const auto session, StartPlan(*plan, run));
                              return CompareSessionWithReference(session.get(), random.feeds,
                                                                 reference, tolerance);
                            }),
                    "in a session");
}

TEST(RandomKernelsTest, EqualTheInterpreterUnderTheExecutorAndInASession) {
  std::vector<Outcome> outcomes(kGraphs);
  ParallelFor(kGraphs, [&](int seed) {
    const absl::Status status = Check(seed, &outcomes[seed]);
    if (!status.ok()) outcomes[seed].failure = status.ToString();
  });
  int refused = 0, unusual = 0;
  for (int seed = 0; seed < kGraphs; ++seed) {
    refused += outcomes[seed].refused;
    unusual += outcomes[seed].unusual;
    EXPECT_EQ(outcomes[seed].failure, "") << "seed " << seed;
  }
  std::printf("%d of %d refused, %d off by more than %g\n", refused, kGraphs, unusual, kUsual);
  EXPECT_LE(refused, kGraphs / 20);
  EXPECT_LE(unusual, kGraphs / 30);
}

}  // namespace
}  // namespace sluice
