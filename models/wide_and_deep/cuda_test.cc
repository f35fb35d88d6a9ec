// The small Wide & Deep on CUDA devices, on six layouts.
#include "framework/testing/cuda_parity.h"

#include <vector>

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

// Spread over the list of all.
std::vector<ClickLayout> SixLayouts() {
  const std::vector<ClickLayout> all = ClickLayouts();
  std::vector<ClickLayout> some;
  for (size_t n = 0; n < 6; ++n) some.push_back(all[n * all.size() / 6]);
  return some;
}

INSTANTIATE_TEST_SUITE_P(Six, CudaTest, testing::ValuesIn(SixLayouts()),
                         [](const auto& test) { return test.param.Stem(); });

}  // namespace
}  // namespace sluice
