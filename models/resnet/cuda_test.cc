// Small ResNets on CUDA devices, on six layouts.
#include "framework/testing/cuda_parity.h"

#include <vector>

#include "gtest/gtest.h"
#include "models/resnet/parity.h"

namespace sluice {
namespace {

class CudaTest : public testing::TestWithParam<ResNetLayout> {};

TEST_P(CudaTest, TrainsAsOneCpuDoes) {
  ExpectCudaParity(SgdWithMomentum(), ResNetParity(GetParam()),
                   ResNetParity(ReferenceOf(GetParam())));
}

TEST_P(CudaTest, EveryAccessIsInOrder) {
  ExpectCudaOrder(SgdWithMomentum(), ResNetParity(GetParam()), /*steps=*/1);
}

// Spread over the list of all.
std::vector<ResNetLayout> SixLayouts() {
  const std::vector<ResNetLayout> all = ResNetLayouts();
  std::vector<ResNetLayout> some;
  for (size_t n = 0; n < 6; ++n) some.push_back(all[n * all.size() / 6]);
  return some;
}

INSTANTIATE_TEST_SUITE_P(Six, CudaTest, testing::ValuesIn(SixLayouts()),
                         [](const auto& test) { return test.param.Stem(); });

}  // namespace
}  // namespace sluice
