// How fast the emulation runs kernels, with checks and without; README.md has the figures.
#include <cuda_dynamic_shared.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "benchmark/benchmark.h"
#include "framework/testing/cuda_emulation/emulation.h"

namespace sluice::cuda_emulation {
namespace {

__global__ void AdamW(float* p, const float* g, float* m, float* v, int n, float rate, float beta1,
                      float beta2, float epsilon, float decay) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= n) return;
  const float gradient = g[i];
  const float mean = m[i] = beta1 * m[i] + (1 - beta1) * gradient;
  const float square = v[i] = beta2 * v[i] + (1 - beta2) * gradient * gradient;
  p[i] -= rate * (mean / (sqrtf(square) + epsilon) + decay * p[i]);
}

template <typename Fold>
__device__ float BlockFold(float v, float* scratch, const Fold& fold) {
  for (int d = 16; d > 0; d /= 2) v = fold(v, __shfl_xor_sync(~0u, v, d));
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = v;
  __syncthreads();
  float result = scratch[0];
  for (unsigned w = 1; w < blockDim.x / 32; ++w) result = fold(result, scratch[w]);
  __syncthreads();
  return result;
}

__global__ void SoftmaxRows(const float* x, float* y, int width) {
  float* const scratch = SharedMemory<float>();
  x += static_cast<size_t>(blockIdx.x) * width;
  y += static_cast<size_t>(blockIdx.x) * width;
  float m = -INFINITY;
  for (int i = threadIdx.x; i < width; i += blockDim.x) m = fmaxf(m, x[i]);
  m = BlockFold(m, scratch, [](float a, float b) { return fmaxf(a, b); });
  float sum = 0;
  for (int i = threadIdx.x; i < width; i += blockDim.x) sum += expf(x[i] - m);
  sum = BlockFold(sum, scratch, [](float a, float b) { return a + b; });
  for (int i = threadIdx.x; i < width; i += blockDim.x) y[i] = expf(x[i] - m) / sum;
}

__global__ void BlockSums(const float* x, float* y, int n) {
  __shared__ float tree[1024];
  const int i = static_cast<int>(blockIdx.x * 1024 + threadIdx.x);
  tree[threadIdx.x] = i < n ? x[i] : 0;
  __syncthreads();
  for (unsigned d = 512; d > 0; d /= 2) {
    if (threadIdx.x < d) tree[threadIdx.x] += tree[threadIdx.x + d];
    __syncthreads();
  }
  if (threadIdx.x == 0) y[blockIdx.x] = tree[0];
}

void Require(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
  std::abort();
}

float* NewZeros(size_t n) {
  float* made = nullptr;
  Require(cudaMalloc(&made, n * sizeof(float)));
  Require(cudaMemset(made, 0, n * sizeof(float)));
  return made;
}

template <typename... P>
void Run(benchmark::State& state, void (*kernel)(P...), const dim3& blocks, const dim3& threads,
         size_t shared_bytes, int64_t elements, P... arguments) {
  SetChecks(state.range(0) != 0);
  cudaStream_t stream = nullptr;
  Require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  Require(cudaDeviceSynchronize());
  const auto run = [&] {
    void* addresses[] = {&arguments...};
    Require(cudaLaunchKernel(kernel, blocks, threads, addresses, shared_bytes, stream));
    Require(cudaStreamSynchronize(stream));
  };
  run();  // the pages that say who touched what are there afterwards
  for (auto _ : state) run();
  state.SetItemsProcessed(state.iterations() * elements);
}

// No barrier.
void BM_AdamW(benchmark::State& state) {
  Reset(1);
  constexpr int n = 1 << 20;
  float *const p = NewZeros(n), *const g = NewZeros(n), *const m = NewZeros(n),
               *const v = NewZeros(n);
  Run<float*, const float*, float*, float*, int, float, float, float, float, float>(
      state, AdamW, n / 256, 256, 0, n, p, g, m, v, n, 1e-3f, .9f, .999f, 1e-8f, .01f);
}

// 14 waits a thread.
void BM_Softmax(benchmark::State& state) {
  Reset(1);
  constexpr int rows = 4096, width = 1024;
  float *const x = NewZeros(rows * width), *const y = NewZeros(rows * width);
  Run<const float*, float*, int>(state, SoftmaxRows, rows, 256, 64, rows * width, x, y, width);
}

// 11 barriers of 1,024 threads.
void BM_BlockSums(benchmark::State& state) {
  Reset(1);
  constexpr int n = 1 << 20;
  float *const x = NewZeros(n), *const y = NewZeros(1024);
  Run<const float*, float*, int>(state, BlockSums, n / 1024, 1024, 0, n, x, y, n);
}

BENCHMARK(BM_AdamW)->ArgName("checks")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_Softmax)->ArgName("checks")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_BlockSums)->ArgName("checks")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace sluice::cuda_emulation
