// Mistakes in what trains the small Wide & Deep on CUDA devices are found and named.
#include "framework/testing/cuda_faults.h"

#include "gtest/gtest.h"
#include "models/wide_and_deep/parity.h"

namespace sluice {
namespace {

ParityCase Layout() {
  return ClickParity({.mesh = "table=2 pipe=2", .micro_batches = 4, .split_columns = true});
}

TEST(CudaFaultsTest, NothingIsFoundWhereNothingIsWrong) {
  ExpectNoCudaFault(AdamWWithClip(), Layout());
}

class CudaFaultTest : public testing::TestWithParam<CudaFault> {};

TEST_P(CudaFaultTest, IsFound) { ExpectCudaFaultFound(AdamWWithClip(), Layout(), GetParam()); }

INSTANTIATE_TEST_SUITE_P(All, CudaFaultTest, testing::ValuesIn(CudaFaults()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace sluice
