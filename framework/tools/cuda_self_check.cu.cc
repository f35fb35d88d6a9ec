#include "framework/tools/cuda_self_check.h"

#include <cuda_runtime.h>

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/device/cuda_device.h"

namespace sluice {
namespace {

constexpr int kThreads = 256;
constexpr int kBlocks = 4;
constexpr int kCount = kThreads * kBlocks;

// Each block writes its thread numbers backwards, by way of shared memory.
__global__ void __launch_bounds__(kThreads) Reverse(int* written) {
  __shared__ int numbers[kThreads];
  const int thread = static_cast<int>(threadIdx.x);
  numbers[thread] = thread;
  __syncthreads();
  written[static_cast<int>(blockIdx.x) * kThreads + thread] = numbers[kThreads - 1 - thread];
}

// What a check needs of a card, given back at its end.
struct Resources {
  cudaStream_t stream = nullptr;
  int* on_card = nullptr;
  int* on_host = nullptr;

  Resources() = default;
  Resources(const Resources&) = delete;
  Resources& operator=(const Resources&) = delete;
  ~Resources() {
    cudaFree(on_card);
    cudaFreeHost(on_host);
    if (stream != nullptr) cudaStreamDestroy(stream);
  }

  absl::Status Allocate() {
    constexpr size_t kBytes = kCount * sizeof(int);
    void* made = nullptr;
    RETURN_IF_ERROR(FromCuda(cudaMalloc(&made, kBytes), "cudaMalloc"));
    on_card = static_cast<int*>(made);
    RETURN_IF_ERROR(FromCuda(cudaHostAlloc(&made, kBytes, cudaHostAllocDefault), "cudaHostAlloc"));
    on_host = static_cast<int*>(made);
    return FromCuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
                    "cudaStreamCreateWithFlags");
  }
};

}  // namespace

absl::Status CheckCudaCard(int card) {
  RETURN_IF_ERROR(FromCuda(cudaSetDevice(card), "cudaSetDevice"));
  Resources at;
  RETURN_IF_ERROR(at.Allocate());
  void* arguments[] = {&at.on_card};
  RETURN_IF_ERROR(
      FromCuda(cudaLaunchKernel(Reverse, dim3(kBlocks), dim3(kThreads), arguments, 0, at.stream),
               "cudaLaunchKernel"));
  RETURN_IF_ERROR(FromCuda(cudaMemcpyAsync(at.on_host, at.on_card, kCount * sizeof(int),
                                           cudaMemcpyDeviceToHost, at.stream),
                           "cudaMemcpyAsync"));
  RETURN_IF_ERROR(FromCuda(cudaStreamSynchronize(at.stream), "cudaStreamSynchronize"));
  for (int i = 0; i < kCount; ++i) {
    const int expected = kThreads - 1 - i % kThreads;
    if (at.on_host[i] == expected) continue;
    return absl::InternalError(
        absl::StrCat("element ", i, ": expected ", expected, ", got ", at.on_host[i]));
  }
  return absl::OkStatus();
}

}  // namespace sluice
