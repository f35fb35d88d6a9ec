#include "framework/tools/cuda_self_check.h"

#include <cuda_runtime.h>

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"

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

absl::Status Succeeded(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(call, ": ", cudaGetErrorString(error)));
}

// What a check needs of a device, given back at its end.
struct Resources {
  cudaStream_t stream = nullptr;
  int* on_device = nullptr;
  int* on_host = nullptr;

  Resources() = default;
  Resources(const Resources&) = delete;
  Resources& operator=(const Resources&) = delete;
  ~Resources() {
    cudaFree(on_device);
    cudaFreeHost(on_host);
    if (stream != nullptr) cudaStreamDestroy(stream);
  }

  absl::Status Allocate() {
    constexpr size_t kBytes = kCount * sizeof(int);
    void* made = nullptr;
    RETURN_IF_ERROR(Succeeded(cudaMalloc(&made, kBytes), "cudaMalloc"));
    on_device = static_cast<int*>(made);
    RETURN_IF_ERROR(Succeeded(cudaHostAlloc(&made, kBytes, cudaHostAllocDefault), "cudaHostAlloc"));
    on_host = static_cast<int*>(made);
    return Succeeded(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
                     "cudaStreamCreateWithFlags");
  }
};

}  // namespace

absl::StatusOr<int> CountCudaDevices() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess && count > 0) return count;
  int driver = 0;
  cudaDriverGetVersion(&driver);
  return absl::UnavailableError(absl::StrCat(
      "no CUDA device: driver says: ",
      error == cudaSuccess ? "there is none" : cudaGetErrorString(error),
      driver == 0
          ? " (no driver is installed)"
          : absl::StrCat(" (driver for CUDA ", driver / 1000, ".", driver % 1000 / 10, ")")));
}

absl::Status CheckCudaDevice(int device) {
  RETURN_IF_ERROR(Succeeded(cudaSetDevice(device), "cudaSetDevice"));
  Resources at;
  RETURN_IF_ERROR(at.Allocate());
  void* arguments[] = {&at.on_device};
  RETURN_IF_ERROR(
      Succeeded(cudaLaunchKernel(Reverse, dim3(kBlocks), dim3(kThreads), arguments, 0, at.stream),
                "cudaLaunchKernel"));
  RETURN_IF_ERROR(Succeeded(cudaMemcpyAsync(at.on_host, at.on_device, kCount * sizeof(int),
                                            cudaMemcpyDeviceToHost, at.stream),
                            "cudaMemcpyAsync"));
  RETURN_IF_ERROR(Succeeded(cudaStreamSynchronize(at.stream), "cudaStreamSynchronize"));
  for (int i = 0; i < kCount; ++i) {
    const int expected = kThreads - 1 - i % kThreads;
    if (at.on_host[i] == expected) continue;
    return absl::InternalError(
        absl::StrCat("element ", i, ": expected ", expected, ", got ", at.on_host[i]));
  }
  return absl::OkStatus();
}

}  // namespace sluice
