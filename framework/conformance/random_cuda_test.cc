// The random models of random_kernels_test on CUDA devices, run by the product's own runtime, every
// access checked: they equal the interpreter, and nothing is done that no order allows.
#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/status.h"
#include "framework/compiler/compile.h"
#include "framework/kernels/cpu/library_call.h"
#include "framework/kernels/cuda/support.h"
#include "framework/kernels/kernel.h"
#include "framework/session/check_kernel.h"
#include "framework/session/plan_session.h"
#include "framework/testing/cuda_order.h"
#include "framework/testing/parity.h"
#include "framework/testing/random_graph.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

constexpr int kSteps = 2;
// Of random_kernels_test, whose roundings these are but for the order of some sums.
constexpr double kUsual = 2e-6, kWorst = 1e-3;

struct Count {
  int refused = 0, unusual = 0;
};

absl::Status Run(const plan::Plan& plan, const RandomGraph& random,
                 const InterpretedSteps& reference, int seed, double tolerance) {
  BeginCudaOrder(static_cast<uint64_t>(seed), /*checks=*/true);
  RuntimeOptions run;
  run.seed = 7;
  run.workers = 1 + seed % 3;
  run.check = CheckKernel;
  run.prepare = PrepareCpuKernel;
  run.cuda = &CudaSupport();
  run.init_thread = InitKernelThread;
  absl::Status status;
  {
    ASSIGN_OR_RETURN(const auto session, StartPlan(plan, run));
    status = CompareSessionWithReference(session.get(), random.feeds, reference, tolerance);
  }
  const std::vector<std::string> errors = TakeCudaErrors();
  if (errors.empty()) return status;
  return absl::InternalError(absl::StrCat(status.ToString(), "\n", absl::StrJoin(errors, "\n")));
}

absl::Status Check(int seed, Count* count) {
  ASSIGN_OR_RETURN(const RandomGraph random, MakeRandomGraph(seed, kSteps, DType::kF32));
  CompileOptions options;
  ASSIGN_OR_RETURN(options.mesh, Mesh::Parse(absl::StrCat(random.mesh.ToString(), " @cuda")));
  options.micro_batches = random.micro_batches;
  options.script_length = random.script_length;
  if (seed % 2 == 0) options.least_taken = 0, options.largest_logits = 100;  // all are small
  options.machine = Machine::Cpu();
  const auto plan = CompilePlan({{"train", random.graph.get()}}, options);
  if (absl::IsInvalidArgument(plan.status()) || absl::IsFailedPrecondition(plan.status())) {
    ++count->refused;  // for the reasons of random_graphs_test, which CPUs have as well
    options.mesh = random.mesh;
    const auto on_cpus = CompilePlan({{"train", random.graph.get()}}, options);
    return on_cpus.status().code() == plan.status().code() ? absl::OkStatus() : plan.status();
  }
  RETURN_IF_ERROR(plan.status());
  ASSIGN_OR_RETURN(const InterpretedSteps reference,
                   InterpretSteps(*random.graph, random.feeds, 7));
  const absl::Status status = Run(*plan, random, reference, seed, kUsual);
  if (!absl::IsDataLoss(status)) return status;
  ++count->unusual;
  return Run(*plan, random, reference, seed, kWorst);
}

void ExpectTheInterpretersValues(int first, int graphs) {
  Count count;
  for (int seed = first; seed < first + graphs; ++seed) {
    EXPECT_EQ(Check(seed, &count).ToString(), "OK") << "seed " << seed;
  }
  std::printf("%d of %d refused, %d off by more than %g\n", count.refused, graphs, count.unusual,
              kUsual);
  EXPECT_LE(count.refused, 1 + graphs / 10);
  EXPECT_LE(count.unusual, 1 + graphs / 30);
}

TEST(RandomCudaTest, SomeEqualTheInterpreter) { ExpectTheInterpretersValues(0, 150); }
TEST(RandomCudaTest, ManyEqualTheInterpreter) { ExpectTheInterpretersValues(1000, 2000); }

}  // namespace
}  // namespace sluice
