// The small Wide & Deep on CUDA devices, on six layouts, and on one in bf16.
#include "framework/testing/cuda_parity.h"

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "framework/base/status.h"
#include "framework/kernels/cuda/support.h"
#include "framework/testing/cuda_order.h"
#include "framework/testing/layouts.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/wide_and_deep/parity.h"

namespace sluice {
namespace {

class CudaTest : public testing::TestWithParam<ClickLayout> {};

TEST_P(CudaTest, TrainsAsOneCpuDoes) {
  ExpectCudaParity(AdamWWithClip(), ClickParity(GetParam()), ClickParity(ReferenceOf(GetParam())));
}

TEST_P(CudaTest, EveryAccessIsInOrder) {
  ExpectCudaOrder(AdamWWithClip(), ClickParity(GetParam()), /*steps=*/1);
}

INSTANTIATE_TEST_SUITE_P(Six, CudaTest, testing::ValuesIn(SixOf(ClickLayouts())), LayoutName());
// Tables in the host's memory, layers on cards.
std::vector<ClickLayout> TablesOnCpus() {
  return {{.mesh = "pipe=2 @cpu,cuda", .tables_apart = true},
          {.mesh = "model=2 pipe=2 @cpu,cuda", .micro_batches = 3, .tables_apart = true}};
}

INSTANTIATE_TEST_SUITE_P(TablesOnCpus, CudaTest, testing::ValuesIn(TablesOnCpus()), LayoutName());
INSTANTIATE_TEST_SUITE_P(Bf16, CudaTest,
                         testing::ValuesIn(InBf16<ClickLayout>({{.mesh = "data=2 model=2"}})),
                         LayoutName());

absl::Status StepWithNanCheck(const ParityCase& of, const std::string& variable, float value) {
  BeginCudaOrder(/*seed=*/1, /*checks=*/true);
  ASSIGN_OR_RETURN(plan::Plan plan, CompileParityPlan(of, AdamWWithClip()));
  RuntimeOptions options;
  options.check_nan = true;
  ASSIGN_OR_RETURN(const std::unique_ptr<ParityRun> run,
                   ParityRun::Start(of, AdamWWithClip(), std::move(plan), options));
  ASSIGN_OR_RETURN(HostTensor weights, run->session()->Read(variable));
  weights.data<float>()[0] = value;
  RETURN_IF_ERROR(run->session()->Write(variable, weights));
  return run->Step(0).status();
}

// In the words of a CPU. Of parameters that are cast by one instruction, it says which.
TEST(CudaNanTest, NamesTheFirstInstructionThatMakesOne) {
  for (const DType precision : {DType::kF32, DType::kBF16}) {
    ClickLayout layout = {.mesh = "data=1 @cuda"};
    layout.precision.compute = precision;
    ParityCase of = ClickParity(layout);
    of.cuda = &CudaSupport();
    EXPECT_EQ(StepWithNanCheck(of, "deep/h1/weight", 0.5F), absl::OkStatus());
    const absl::Status found = StepWithNanCheck(of, "deep/h1/weight", std::nanf(""));
    EXPECT_EQ(found.code(), absl::StatusCode::kOutOfRange);
    EXPECT_THAT(std::string(found.message()),
                testing::MatchesRegex(
                    precision == DType::kF32
                        ? "program train, step 0, device 0, deep/h1.*: a result is NaN or infinite"
                        : "program train, step 0, device 0, .*cast and 9 more "
                          "\\(cast\\): result [1-9]0? of 10 is NaN or infinite"));
    EXPECT_THAT(TakeCudaErrors(), testing::IsEmpty());
  }
}

}  // namespace
}  // namespace sluice
