// Of 65,536 registers each of 2,048 threads has 32, and this kernel keeps 64 values at once.
#include <cuda_runtime.h>

__global__ void __launch_bounds__(1024, 2) Spills(const float* in, float* out) {
  float values[64];
#pragma unroll
  for (int n = 0; n < 64; ++n) values[n] = in[n * 1024 + threadIdx.x];
  __syncthreads();
#pragma unroll
  for (int n = 0; n < 64; ++n) out[n * 1024 + threadIdx.x] = values[n] * values[63 - n];
}
