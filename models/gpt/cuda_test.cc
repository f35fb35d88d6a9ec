// The tiny GPT on CUDA devices: on the emulation, where every access of a kernel, copy and product
// is checked, or with --config=cuda on cards. Every layout trains as one CPU does, to rounding, and
// gives the same bits whatever order the streams, blocks and threads run in.
#include <string>
#include <vector>

#include "framework/kernels/cuda/support.h"
#include "framework/testing/cuda_emulation/emulation.h"
#include "framework/testing/expect_parity.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/gpt/parity.h"

namespace sluice {
namespace {

ParityCase OnCuda(GptLayout layout) {
  layout.mesh += " @cuda";
  ParityCase made = GptParity(layout);
  made.cuda = &CudaSupport();
  return made;
}

// What a few steps leave behind.
absl::StatusOr<std::vector<Fetches>> Train(const ParityCase& of, uint64_t seed, int64_t steps) {
  cuda_emulation::Reset(seed);
  auto run = ParityRun::Start(of, AdamWWithClip());
  if (!run.ok()) return run.status();
  std::vector<Fetches> record;
  for (int64_t step = 0; step < steps; ++step) {
    const absl::StatusOr<StepRecord> stepped = (*run)->Step(step);
    if (!stepped.ok()) return stepped.status();
    record.push_back((*run)->fetches());
  }
  auto variables = (*run)->ReadVariables();
  if (!variables.ok()) return variables.status();
  record.push_back(*std::move(variables));
  return record;
}

void ExpectEqualBits(const std::vector<Fetches>& a, const std::vector<Fetches>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t step = 0; step < a.size(); ++step) {
    for (const auto& [name, tensor] : a[step]) {
      const auto found = b[step].find(name);
      ASSERT_TRUE(found != b[step].end()) << name;
      EXPECT_EQ(found->second.bytes, tensor.bytes) << name << " of step " << step;
    }
  }
}

class CudaTest : public testing::TestWithParam<GptLayout> {};

TEST_P(CudaTest, TrainsAsOneCpuDoes) {
  cuda_emulation::Reset(1);
  cuda_emulation::SetChecks(false);
  ExpectParity(AdamWWithClip(), OnCuda(GetParam()), GptParity(ReferenceLayout(GetParam().batch)));
  EXPECT_THAT(cuda_emulation::Errors(), testing::IsEmpty());
}

TEST_P(CudaTest, EveryAccessIsInOrderAndBitsDoNotDependOnIt) {
  cuda_emulation::SetChecks(true);
  const auto first = Train(OnCuda(GetParam()), /*seed=*/1, /*steps=*/2);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_THAT(cuda_emulation::Errors(), testing::IsEmpty());
  const auto second = Train(OnCuda(GetParam()), /*seed=*/2, /*steps=*/2);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_THAT(cuda_emulation::Errors(), testing::IsEmpty());
  ExpectEqualBits(*first, *second);
}

std::vector<GptLayout> AllLayouts() {
  std::vector<GptLayout> layouts = ParityLayouts();
  layouts.insert(layouts.begin(), ReferenceLayout(8));
  return layouts;
}

// One of each family: one device, a split batch, split weights, all axes.
std::vector<GptLayout> FewLayouts() {
  GptLayout all;
  all.mesh = "data=2 model=2 pipe=2";
  all.micro_batches = 4;
  return {ReferenceLayout(8), {"data=2"}, {"model=2"}, all};
}

INSTANTIATE_TEST_SUITE_P(Few, CudaTest, testing::ValuesIn(FewLayouts()),
                         [](const auto& test) { return test.param.Stem(); });
INSTANTIATE_TEST_SUITE_P(All, CudaTest, testing::ValuesIn(AllLayouts()),
                         [](const auto& test) { return test.param.Stem(); });

}  // namespace
}  // namespace sluice
