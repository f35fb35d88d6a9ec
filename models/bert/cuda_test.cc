// The small BERT on CUDA devices, on six layouts, and on one in bf16.
#include "framework/testing/cuda_parity.h"

#include <vector>

#include "gtest/gtest.h"
#include "models/bert/parity.h"

namespace sluice {
namespace {

class CudaTest : public testing::TestWithParam<BertLayout> {};

TEST_P(CudaTest, TrainsAsOneCpuDoes) {
  ExpectCudaParity(AdamWWithClip(), BertParity(GetParam()), BertParity(ReferenceOf(GetParam())));
}

TEST_P(CudaTest, EveryAccessIsInOrder) {
  ExpectCudaOrder(AdamWWithClip(), BertParity(GetParam()), /*steps=*/1);
}

// Spread over the list of all.
std::vector<BertLayout> SixLayouts() {
  const std::vector<BertLayout> all = BertLayouts();
  std::vector<BertLayout> some;
  for (size_t n = 0; n < 6; ++n) some.push_back(all[n * all.size() / 6]);
  return some;
}

BertLayout InBf16() { return {.mesh = "data=2 model=2", .precision = {.compute = DType::kBF16}}; }

INSTANTIATE_TEST_SUITE_P(Six, CudaTest, testing::ValuesIn(SixLayouts()),
                         [](const auto& test) { return test.param.Stem(); });
INSTANTIATE_TEST_SUITE_P(Bf16, CudaTest, testing::Values(InBf16()),
                         [](const auto& test) { return test.param.Stem(); });

}  // namespace
}  // namespace sluice
