// Graphs of cuDNN that run: on the emulation, which computes them and sees what they touch.
#include "framework/kernels/cuda/cudnn_graph.h"

#include <cuda_runtime.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "framework/tensor/dtype.h"
#include "framework/testing/cuda_emulation/emulation.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice::cuda {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kImages = 2, kChannels = 8, kSide = 6, kOut = 16;
constexpr int64_t kPixels = kImages * kSide * kSide;
constexpr int64_t kPlenty = int64_t{1} << 30;

class CudnnRunTest : public ::testing::Test {
 protected:
  CudnnRunTest() {
    cuda_emulation::Reset(uint64_t{3});
    backend_ = *CudnnBackend::Load();
    EXPECT_EQ(backend_->create_handle(&handle_), CUDNN_STATUS_SUCCESS);
    for (cudaStream_t& stream : streams_) {
      cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    }
    backend_->set_stream(handle_, streams_[0]);
  }
  ~CudnnRunTest() override { EXPECT_THAT(cuda_emulation::TakeErrors(), IsEmpty()); }

  // Bytes of the device, each element of value `first` and up.
  void* Device(int64_t elements, float first, cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    std::vector<float> floats;
    for (int64_t i = 0; i < elements; ++i) floats.push_back(first + static_cast<float>(i % 5));
    std::vector<char> bytes(static_cast<size_t>(elements) * 4);
    for (size_t i = 0; i < floats.size(); ++i) {
      const uint16_t bits = FloatToBFloat16(floats[i]);
      if (type == CUDNN_DATA_BFLOAT16) {
        std::memcpy(&bytes[2 * i], &bits, 2);
      } else {
        std::memcpy(&bytes[4 * i], &floats[i], 4);
      }
    }
    void* device = nullptr;
    cudaMalloc(&device, bytes.size());
    cudaMemcpy(device, bytes.data(), bytes.size(), cudaMemcpyHostToDevice);
    cudaDeviceSynchronize();
    return device;
  }
  static void* Unwritten(int64_t bytes) {
    void* device = nullptr;
    cudaMalloc(&device, static_cast<size_t>(bytes));
    return device;
  }
  std::vector<float> Read(const void* device, int64_t elements) {
    cudaDeviceSynchronize();
    std::vector<float> values(static_cast<size_t>(elements));
    cudaMemcpy(values.data(), device, values.size() * 4, cudaMemcpyDeviceToHost);
    return values;
  }

  static CudnnGraph::TensorId Image(CudnnGraph& graph, int64_t n, int64_t channels, int64_t side,
                                    cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    return graph.Tensor({n, channels, side, side},
                        {side * side * channels, 1, side * channels, channels}, type);
  }
  // A convolution by a window of one.
  std::shared_ptr<const CudnnPlan> Plan(int64_t most_workspace = kPlenty) {
    CudnnGraph graph(*backend_);
    const auto x = Image(graph, kImages, kChannels, kSide);
    const auto w = Image(graph, kOut, kChannels, 1);
    const auto y = Image(graph, kImages, kOut, kSide);
    graph.Convolution(ConvolutionPass::kForward, {{1, 1}, {0, 0}, {1, 1}}, x, w, y);
    auto plan = graph.Plan({handle_, ""}, CudnnNotesWithout(CUDNN_DATA_FLOAT), most_workspace);
    EXPECT_TRUE(plan.ok()) << plan.status();
    return *plan;
  }
  absl::Status Run(const CudnnPlan& plan, std::vector<void*> addresses, void* workspace) {
    const std::vector<int64_t> numbers = {1, 2, 3};
    return plan.Run(handle_, {numbers.data(), addresses.size()}, addresses, workspace);
  }

  const CudnnBackend* backend_ = nullptr;
  cudnnHandle_t handle_ = nullptr;
  cudaStream_t streams_[2] = {};
};

TEST_F(CudnnRunTest, ComputesWhatItSays) {
  const auto plan = Plan();
  void *x = Device(kPixels * kChannels, 1), *w = Device(kOut * kChannels, -2);
  void *y = Unwritten(kPixels * kOut * 4), *workspace = Unwritten(plan->engine().workspace);
  ASSERT_TRUE(Run(*plan, {x, w, y}, workspace).ok());
  const std::vector<float> images = Read(x, kPixels * kChannels), weights = Read(w, 128);
  const std::vector<float> made = Read(y, kPixels * kOut);
  for (int64_t pixel = 0; pixel < kPixels; ++pixel) {
    for (int64_t o = 0; o < kOut; ++o) {
      float sum = 0;
      for (int64_t c = 0; c < kChannels; ++c) {
        sum += images[pixel * kChannels + c] * weights[o * kChannels + c];
      }
      ASSERT_EQ(made[pixel * kOut + o], sum) << pixel << " " << o;
    }
  }
}

TEST_F(CudnnRunTest, EnginesThatRoundOrVaryAreOfferedAndLeftOut) {
  for (const cudnnDataType_t type : {CUDNN_DATA_FLOAT, CUDNN_DATA_BFLOAT16}) {
    const auto first = [&](const std::vector<cudnnBackendNumericalNote_t>& without) {
      CudnnGraph graph(*backend_);
      const auto x = Image(graph, kImages, kChannels, kSide, type);
      const auto w = Image(graph, kOut, kChannels, 1, type);
      graph.Convolution(ConvolutionPass::kForward, {{1, 1}, {0, 0}, {1, 1}}, x, w,
                        Image(graph, kImages, kOut, kSide, type));
      return graph.Engines({handle_, ""}, without)->front().index;
    };
    EXPECT_NE(first({}), first(CudnnNotesWithout(type)));
  }
}

TEST_F(CudnnRunTest, OperandsAndWorkspaceAreNeeded) {
  const auto plan = Plan();
  ASSERT_GT(plan->engine().workspace, 0);
  void *x = Device(kPixels * kChannels, 1), *w = Device(kOut * kChannels, 1);
  void *y = Unwritten(kPixels * kOut * 4), *workspace = Unwritten(plan->engine().workspace);
  const auto message = [](const absl::Status& status) { return std::string(status.message()); };
  EXPECT_THAT(message(Run(*plan, {x, w}, workspace)), HasSubstr("no pointer for tensor 3"));
  EXPECT_THAT(message(Run(*plan, {x, nullptr, y}, workspace)), HasSubstr("no pointer"));
  EXPECT_THAT(message(Run(*plan, {static_cast<char*>(x) + 4, w, y}, workspace)),
              HasSubstr("not aligned to 16"));
  EXPECT_THAT(message(Run(*plan, {x, w, y}, nullptr)), HasSubstr("needs a workspace"));
  EXPECT_TRUE(Run(*plan, {x, w, y}, workspace).ok());
  cudaDeviceSynchronize();
}

TEST_F(CudnnRunTest, WhatNobodyWroteIsSeen) {
  const auto plan = Plan(0);
  void *x = Device(kPixels * kChannels, 1), *w = Unwritten(kOut * kChannels * 4);
  ASSERT_TRUE(Run(*plan, {x, w, Unwritten(kPixels * kOut * 4)}, nullptr).ok());
  cudaDeviceSynchronize();
  EXPECT_THAT(cuda_emulation::TakeErrors(), Contains(HasSubstr("cudnnBackendExecute")));
}

TEST_F(CudnnRunTest, AWorkspaceThatIsTooSmallIsSeen) {
  const auto plan = Plan();
  void *x = Device(kPixels * kChannels, 1), *w = Device(kOut * kChannels, 1);
  void* const workspace = Unwritten(plan->engine().workspace - 16);
  ASSERT_TRUE(Run(*plan, {x, w, Unwritten(kPixels * kOut * 4)}, workspace).ok());
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  EXPECT_THAT(cuda_emulation::TakeErrors(), Contains(HasSubstr("cudnnBackendExecute")));
  cuda_emulation::Reset(uint64_t{1});
}

TEST_F(CudnnRunTest, StreamsThatShareAWorkspaceAreSeen) {
  const auto plan = Plan();
  void *x = Device(kPixels * kChannels, 1), *w = Device(kOut * kChannels, 1);
  void* const workspace = Unwritten(plan->engine().workspace);
  for (const cudaStream_t stream : streams_) {
    backend_->set_stream(handle_, stream);
    ASSERT_TRUE(Run(*plan, {x, w, Unwritten(kPixels * kOut * 4)}, workspace).ok());
  }
  cudaDeviceSynchronize();
  EXPECT_THAT(cuda_emulation::TakeErrors(), Contains(HasSubstr("cudnnBackendExecute")));
}

// What the library takes, and may or may not compute, the emulation refuses.
TEST_F(CudnnRunTest, WeightsOfAnotherLayoutOrTypeAreRefused) {
  const auto engines = [&](const std::vector<int64_t>& strides, cudnnDataType_t type) {
    CudnnGraph graph(*backend_);
    const auto x = Image(graph, kImages, kChannels, kSide, CUDNN_DATA_BFLOAT16);
    const auto y = Image(graph, kImages, kOut, kSide, CUDNN_DATA_BFLOAT16);
    const auto w = graph.Tensor({kOut, kChannels, 3, 3}, strides, type);
    graph.Convolution(ConvolutionPass::kWeightGradient, {{1, 1}, {1, 1}, {1, 1}}, x, w, y);
    return graph.Engines({handle_, ""}, {}).status().code();
  };
  const std::vector<int64_t> channels_last = {72, 1, 24, 8}, ours = {1, 16, 384, 128};
  EXPECT_EQ(engines(channels_last, CUDNN_DATA_BFLOAT16), absl::StatusCode::kOk);
  EXPECT_EQ(engines(ours, CUDNN_DATA_BFLOAT16), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(engines(channels_last, CUDNN_DATA_FLOAT), absl::StatusCode::kUnimplemented);
}

TEST_F(CudnnRunTest, AGraphRepeatsIt) {
  const auto plan = Plan(0);
  void *x = Device(kPixels * kChannels, 1), *w = Device(kOut * kChannels, 1);
  void* const y = Unwritten(kPixels * kOut * 4);
  cudaStreamBeginCapture(streams_[0], cudaStreamCaptureModeThreadLocal);
  ASSERT_TRUE(Run(*plan, {x, w, y}, nullptr).ok());
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(streams_[0], &graph), cudaSuccess);
  cudaGraphExec_t repeated = nullptr;
  ASSERT_EQ(cudaGraphInstantiate(&repeated, graph, 0), cudaSuccess);
  const int64_t before = cuda_emulation::GetStatistics().library_calls;
  for (int i = 0; i < 3; ++i) cudaGraphLaunch(repeated, streams_[0]);
  cudaDeviceSynchronize();
  EXPECT_EQ(cuda_emulation::GetStatistics().library_calls - before, 3);
  cudaGraphExecDestroy(repeated);
  cudaGraphDestroy(graph);
}

}  // namespace
}  // namespace sluice::cuda
