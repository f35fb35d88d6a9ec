// Convolutions on CUDA devices where cuDNN is not installed: products of patches.
#include <string>

#include "framework/conformance/cuda_run.h"
#include "framework/conformance/kernel_checker.h"
#include "framework/ops/all_ops.h"
#include "framework/testing/cuda_emulation/cudnn.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

TEST(CudaPatchesTest, ConvolutionsAgreeWithoutCudnn) {
  cuda_emulation::SetCudnnWorks(false);
  const KernelChecker checker(DeviceKind::kCuda, RunOnCuda,
                              [](const KernelCall&, const KernelRun&) { return std::string(); });
  int tried = 0;
  for (const char* name : {"conv2d", "conv2d_input_gradient", "conv2d_weight_gradient"}) {
    const OpDef& op = *FindOp(name);
    for (const OpCase& op_case : op.cases) {
      EXPECT_EQ(checker.CheckCase(op, op_case, {1, 3}, &tried), "");
      EXPECT_EQ(checker.CheckCase(op, InBf16(op, op_case), {3}, &tried), "");
    }
    for (const OpCase& large : op.large_cases) EXPECT_EQ(checker.CheckWhole(op, large, 1), "");
  }
  EXPECT_GT(tried, 0);
}

}  // namespace
}  // namespace sluice
