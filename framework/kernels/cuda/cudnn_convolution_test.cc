// What a convolution by cuDNN is chosen by; what it computes is tested with all other kernels, by
// //framework/conformance.
#include "framework/kernels/cuda/cudnn_convolution.h"

#include "framework/testing/cuda_emulation/cudnn.h"
#include "framework/testing/cuda_emulation/emulation.h"
#include "gtest/gtest.h"

namespace sluice::cuda {
namespace {

constexpr int64_t kPlenty = int64_t{1} << 30;

// The first convolution of ResNet-50, whose fastest engine wants to pad channels.
ConvolutionShape First() {
  ConvolutionShape s;
  s.images = 32, s.height = s.width = 224, s.channels = 3;
  s.out_height = s.out_width = 112, s.out_channels = 64;
  s.kernel_height = s.kernel_width = 7;
  s.stride_height = s.stride_width = 2;
  s.padding = {3, 3, 3, 3};
  s.operands = DType::kBF16;
  return s;
}
// Its weights as cuDNN wants them, in whole 256 bytes.
constexpr int64_t kTurned = (7 * 7 * 3 * 64 * 2 + 255) / 256 * 256;

TEST(CudnnConvolutionTest, AsksForScratchThatThereIs) {
  const auto fast = CudnnConvolution::Prepare(ConvolutionPass::kForward, First(), kPlenty);
  ASSERT_TRUE(fast.ok()) << fast.status();
  EXPECT_EQ((*fast)->scratch(), kTurned + 25740304);  // as the table of what is supported has it
  const auto frugal = CudnnConvolution::Prepare(ConvolutionPass::kForward, First(), kTurned);
  ASSERT_TRUE(frugal.ok()) << frugal.status();
  EXPECT_EQ((*frugal)->scratch(), kTurned);
  EXPECT_EQ(
      CudnnConvolution::Prepare(ConvolutionPass::kForward, First(), kTurned - 1).status().code(),
      absl::StatusCode::kUnimplemented);
}

TEST(CudnnConvolutionTest, IsNotAskedForUnevenPadding) {
  ConvolutionShape s = First();
  s.padding = {2, 3, 2, 3};
  EXPECT_EQ(CudnnConvolution::Prepare(ConvolutionPass::kForward, s, kPlenty).status().code(),
            absl::StatusCode::kUnimplemented);
}

TEST(CudnnConvolutionTest, AMistakeOfOursIsNoRefusal) {
  ConvolutionShape s = First();
  s.out_height = 100;
  EXPECT_EQ(CudnnConvolution::Prepare(ConvolutionPass::kForward, s, kPlenty).status().code(),
            absl::StatusCode::kInvalidArgument);
}

// On another card engines are others.
TEST(CudnnConvolutionTest, IsOfTheCallersDevice) {
  cuda_emulation::Options options;
  options.major = 8;
  cuda_emulation::Reset(options);
  cudaSetDevice(1);  // of which no handle was made yet
  const auto a100 = CudnnConvolution::Prepare(ConvolutionPass::kWeightGradient, First(), kPlenty);
  ASSERT_TRUE(a100.ok()) << a100.status();
  cuda_emulation::Reset(cuda_emulation::Options());
  cudaSetDevice(2);
  const auto h100 = CudnnConvolution::Prepare(ConvolutionPass::kWeightGradient, First(), kPlenty);
  ASSERT_TRUE(h100.ok()) << h100.status();
  EXPECT_NE((*a100)->scratch(), (*h100)->scratch());
  cudaSetDevice(0);
}

TEST(CudnnConvolutionTest, WithoutCudnnItSaysSo) {
  cudaSetDevice(3);
  cuda_emulation::SetCudnnWorks(false);
  EXPECT_EQ(CudnnConvolution::Prepare(ConvolutionPass::kForward, First(), kPlenty).status().code(),
            absl::StatusCode::kUnavailable);
  cuda_emulation::SetCudnnWorks(true);
  EXPECT_TRUE(CudnnConvolution::Prepare(ConvolutionPass::kForward, First(), kPlenty).ok());
  cudaSetDevice(0);
}

}  // namespace
}  // namespace sluice::cuda
