// What is wrong with workspaces of products is found and named in a small ResNet, whose products
// are long enough to have some where cuDNN does not make its convolutions.
#include "framework/testing/cuda_faults.h"

#include "framework/testing/cuda_emulation/cudnn.h"
#include "gtest/gtest.h"
#include "models/resnet/parity.h"

namespace sluice {
namespace {

ParityCase Layout() {
  cuda_emulation::SetCudnnWorks(false);
  return ResNetParity({.mesh = "data=2"});
}

TEST(CudaFaultsTest, NothingIsFoundWhereNothingIsWrong) {
  ExpectNoCudaFault(AdamWWithClip(), Layout());
}

class CudaFaultTest : public testing::TestWithParam<CudaFault> {};

TEST_P(CudaFaultTest, IsFound) { ExpectCudaFaultFound(AdamWWithClip(), Layout(), GetParam()); }

INSTANTIATE_TEST_SUITE_P(All, CudaFaultTest, testing::ValuesIn(WorkspaceFaults()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace sluice
