#include "framework/kernels/null_kernel.h"

#include "gtest/gtest.h"

namespace sluice {
namespace {

TEST(NullKernelTest, CountsRunsAndBytesAndTouchesNothing) {
  KernelSpec spec;
  spec.op = "anything";
  spec.inputs = {Shard::Whole(DType::kF32, {2, 3})};
  spec.outputs = {Shard::Whole(DType::kI32, {5})};
  NullCounts counts;
  auto kernel = PrepareNullKernel(spec, &counts);
  ASSERT_TRUE(kernel.ok());
  std::byte* const operands[] = {nullptr, nullptr};
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE((*kernel)->Run(KernelContext(), operands, nullptr).ok());
  }
  EXPECT_EQ(counts.runs.load(), 3);
  EXPECT_EQ(counts.bytes.load(), 3 * 44);
  EXPECT_EQ((*kernel)->scratch(), 0);
}

}  // namespace
}  // namespace sluice
