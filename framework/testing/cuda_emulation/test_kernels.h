// What the tests of the emulation share.
#ifndef SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_TEST_KERNELS_H_
#define SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_TEST_KERNELS_H_

#include <cuda_runtime.h>

#include <string>
#include <tuple>
#include <vector>

#include "framework/testing/cuda_emulation/emulation.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice::cuda_emulation {

// Dynamic shared memory too.
struct Shape {
  dim3 blocks, threads;
  size_t shared_bytes = 0;
};

template <typename... P, typename... A>
cudaError_t Launch(void (*kernel)(P...), const Shape& shape, cudaStream_t stream, A... arguments) {
  std::tuple<P...> converted{static_cast<P>(arguments)...};
  return std::apply(
      [&](auto&... each) {
        void* addresses[] = {&each..., nullptr};
        return cudaLaunchKernel(kernel, shape.blocks, shape.threads, addresses, shape.shared_bytes,
                                stream);
      },
      converted);
}

// Two streams, two arrays of floats: `zeros` is written, `fresh` is not. A test takes the errors
// that it means to have made.
class EmulationTest : public testing::Test {
 protected:
  static constexpr size_t kFloats = 64;
  static constexpr size_t kBytes = kFloats * sizeof(float);

  void SetUp() override { Begin(1); }
  void TearDown() override { EXPECT_THAT(TakeErrors(), testing::IsEmpty()); }

  void Begin(uint64_t seed) {
    Reset(seed);
    first_ = NewStream();
    second_ = NewStream();
    zeros_ = NewFloats();
    fresh_ = NewFloats();
    EXPECT_EQ(cudaMemsetAsync(zeros_, 0, kBytes, first_), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(first_), cudaSuccess);
    EXPECT_EQ(cudaMallocHost(&pinned_, kBytes), cudaSuccess);
  }
  static cudaStream_t NewStream() {
    cudaStream_t stream = nullptr;
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    return stream;
  }
  static cudaEvent_t NewEvent() {
    cudaEvent_t event = nullptr;
    EXPECT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
    return event;
  }
  static float* NewFloats(size_t floats = kFloats) {
    float* made = nullptr;
    EXPECT_EQ(cudaMalloc(&made, floats * sizeof(float)), cudaSuccess);
    return made;
  }
  // Waits for all; the error that a stream ended with.
  cudaError_t Finish() const {
    const cudaError_t first = cudaStreamSynchronize(first_);
    return first != cudaSuccess ? first : cudaStreamSynchronize(second_);
  }
  // Of the first error; there has to be one.
  static std::string TakeError() {
    const std::vector<std::string> errors = TakeErrors();
    return errors.empty() ? "no error" : errors[0];
  }

  cudaStream_t first_ = nullptr, second_ = nullptr;
  float *zeros_ = nullptr, *fresh_ = nullptr, *pinned_ = nullptr;
};

}  // namespace sluice::cuda_emulation

#endif  // SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_TEST_KERNELS_H_
