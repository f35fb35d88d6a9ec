// The small BERT on CUDA devices, on six layouts, and on one in bf16.
#include "framework/testing/cuda_parity.h"

#include "framework/testing/layouts.h"
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

INSTANTIATE_TEST_SUITE_P(Six, CudaTest, testing::ValuesIn(SixOf(BertLayouts())), LayoutName());
INSTANTIATE_TEST_SUITE_P(Bf16, CudaTest,
                         testing::ValuesIn(InBf16<BertLayout>({{.mesh = "data=2 model=2"}})),
                         LayoutName());

}  // namespace
}  // namespace sluice
