#include "framework/testing/wrong_kernels.h"

#include <cuda_dynamic_shared.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/device/cuda_device.h"

namespace sluice {
namespace {

constexpr int kFloats = 64;

// What compilers cannot know comes as an argument.
__global__ void __launch_bounds__(kFloats) Right(float* p, int n) {
  __shared__ float tile[kFloats];
  const int thread = static_cast<int>(threadIdx.x);
  tile[thread] = p[thread];
  __syncthreads();
  p[thread] = tile[n - 1 - thread];
}
__global__ void __launch_bounds__(kFloats) WriteBehind(float* p, int n) {
  p[static_cast<int>(threadIdx.x) + n / 2] = 1;
}
__global__ void __launch_bounds__(kFloats) Misaligned(float* p, int n) {
  if (threadIdx.x == 0) *reinterpret_cast<float4*>(p + n / kFloats) = make_float4(1, 1, 1, 1);
}
__global__ void __launch_bounds__(kFloats) WriteAll(float* p, int) { p[threadIdx.x] = 1; }
// Far behind what the launch asked for, which is nothing.
__global__ void __launch_bounds__(kFloats) SharedBehind(float* p, int n) {
  float* const shared = SharedMemory<float>();
  shared[static_cast<int>(threadIdx.x) + n * 256] = 1;
  p[threadIdx.x] = shared[static_cast<int>(threadIdx.x) + n * 256];
}
// A barrier is missing before and after the sum.
__global__ void __launch_bounds__(kFloats) SharedRace(float* p, int n) {
  __shared__ float tile[kFloats];
  const int thread = static_cast<int>(threadIdx.x);
  tile[thread] = p[thread];
  tile[thread] += tile[(thread + n / 2) % n];
  p[thread] = tile[thread];
}
// The same inside of a warp, whose threads need not go on together.
__global__ void __launch_bounds__(kFloats) WarpRace(float* p, int) {
  __shared__ float tile[32];
  const int thread = static_cast<int>(threadIdx.x);
  if (thread >= 32) return;
  tile[thread] = p[thread];
  p[thread] = tile[31 - thread];
}
__global__ void __launch_bounds__(kFloats) AddOne(float* p, int) { p[threadIdx.x] += 1; }
__global__ void __launch_bounds__(kFloats) DivergentBarrier(float* p, int n) {
  if (static_cast<int>(threadIdx.x) < n / 3) __syncthreads();
  p[threadIdx.x] = 1;
}
__global__ void __launch_bounds__(kFloats) NotInMask(float* p, int n) {
  __syncwarp(~(1u << (n / 8 - 1)));
  p[threadIdx.x] = 1;
}

// What `p` is when the kernel starts.
enum class Start { kWritten, kFreed, kUnwritten, kHalfWritten };

struct Fault {
  WrongKernel said;
  void (*kernel)(float* p, int n);
  Start start = Start::kWritten;
};

const std::vector<Fault>& Faults() {
  static const auto* const faults = new std::vector<Fault>{
      {{"none", "all", "no mistake"}, Right},
      {{"write_behind", "memcheck", "writes behind an allocation"}, WriteBehind},
      {{"misaligned", "memcheck", "a vector that is not aligned"}, Misaligned},
      {{"after_free", "memcheck", "writes what has been given back"}, WriteAll, Start::kFreed},
      {{"shared_behind", "memcheck", "more shared memory than asked for"}, SharedBehind},
      {{"shared_race", "racecheck", "a barrier is missing"}, SharedRace},
      {{"warp_race", "racecheck", "a barrier of a warp is missing"}, WarpRace},
      {{"unwritten", "initcheck", "reads what nobody has written"}, AddOne, Start::kUnwritten},
      {{"half_written", "initcheck", "reads behind what was written"}, AddOne, Start::kHalfWritten},
      {{"divergent_barrier", "synccheck", "a barrier that not all threads reach"},
       DivergentBarrier},
      {{"not_in_mask", "synccheck", "waits for lanes without its own"}, NotInMask},
  };
  return *faults;
}

absl::Status Run(const Fault& fault) {
  constexpr size_t kBytes = kFloats * sizeof(float);
  RETURN_IF_ERROR(CountCudaCards().status());
  RETURN_IF_ERROR(FromCuda(cudaSetDevice(0), "cudaSetDevice"));
  cudaStream_t stream = nullptr;
  RETURN_IF_ERROR(FromCuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
                           "cudaStreamCreateWithFlags"));
  void* memory = nullptr;
  RETURN_IF_ERROR(FromCuda(cudaMalloc(&memory, kBytes), "cudaMalloc"));
  if (fault.start != Start::kUnwritten) {
    const size_t written = fault.start == Start::kHalfWritten ? kBytes / 2 : kBytes;
    RETURN_IF_ERROR(FromCuda(cudaMemsetAsync(memory, 0, written, stream), "cudaMemsetAsync"));
    RETURN_IF_ERROR(FromCuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize"));
  }
  if (fault.start == Start::kFreed) RETURN_IF_ERROR(FromCuda(cudaFree(memory), "cudaFree"));
  float* p = static_cast<float*>(memory);
  int n = kFloats;
  void* arguments[] = {&p, &n};
  RETURN_IF_ERROR(
      FromCuda(cudaLaunchKernel(fault.kernel, dim3(1), dim3(kFloats), arguments, 0, stream),
               "cudaLaunchKernel"));
  RETURN_IF_ERROR(FromCuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize"));
  if (fault.start != Start::kFreed) RETURN_IF_ERROR(FromCuda(cudaFree(memory), "cudaFree"));
  return FromCuda(cudaStreamDestroy(stream), "cudaStreamDestroy");
}

}  // namespace

absl::Span<const WrongKernel> WrongKernels() {
  static const auto* const said = [] {
    auto* const made = new std::vector<WrongKernel>;
    for (const Fault& fault : Faults()) made->push_back(fault.said);
    return made;
  }();
  return *said;
}

absl::Status RunWrongKernel(const std::string& name) {
  for (const Fault& fault : Faults()) {
    if (fault.said.name == name) return Run(fault);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--fault: expected one that --list names, got \"", name, "\""));
}

}  // namespace sluice
