// Small ResNets on CUDA devices, on six layouts, and on one in bf16.
#include "framework/testing/cuda_parity.h"

#include "framework/testing/layouts.h"
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

INSTANTIATE_TEST_SUITE_P(Six, CudaTest, testing::ValuesIn(SixOf(ResNetLayouts())), LayoutName());
INSTANTIATE_TEST_SUITE_P(Bf16, CudaTest,
                         testing::ValuesIn(InBf16<ResNetLayout>({{.mesh = "data=2 model=2"}})),
                         LayoutName());

}  // namespace
}  // namespace sluice
