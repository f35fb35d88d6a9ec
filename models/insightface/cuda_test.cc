// Small face networks on CUDA devices, on six layouts, and on one in bf16.
#include "framework/testing/cuda_parity.h"

#include <vector>

#include "gtest/gtest.h"
#include "models/insightface/parity.h"

namespace sluice {
namespace {

class CudaTest : public testing::TestWithParam<FaceLayout> {};

TEST_P(CudaTest, TrainsAsOneCpuDoes) {
  ExpectCudaParity(SgdWithMomentum(), FaceParity(GetParam()), FaceParity(ReferenceOf(GetParam())));
}

TEST_P(CudaTest, EveryAccessIsInOrder) {
  ExpectCudaOrder(SgdWithMomentum(), FaceParity(GetParam()), /*steps=*/1);
}

// Spread over the list of all.
std::vector<FaceLayout> SixLayouts() {
  const std::vector<FaceLayout> all = FaceLayouts();
  std::vector<FaceLayout> some;
  for (size_t n = 0; n < 6; ++n) some.push_back(all[n * all.size() / 6]);
  return some;
}

FaceLayout InBf16() { return {.mesh = "data=2 model=2", .precision = {.compute = DType::kBF16}}; }

INSTANTIATE_TEST_SUITE_P(Six, CudaTest, testing::ValuesIn(SixLayouts()),
                         [](const auto& test) { return test.param.Stem(); });
INSTANTIATE_TEST_SUITE_P(Bf16, CudaTest, testing::Values(InBf16()),
                         [](const auto& test) { return test.param.Stem(); });

}  // namespace
}  // namespace sluice
