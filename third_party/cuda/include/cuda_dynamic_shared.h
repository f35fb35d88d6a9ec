// The dynamic shared memory of the block that runs, as nvcc has it; the emulation has a header of
// the same name.
#ifndef SLUICE_THIRD_PARTY_CUDA_INCLUDE_CUDA_DYNAMIC_SHARED_H_
#define SLUICE_THIRD_PARTY_CUDA_INCLUDE_CUDA_DYNAMIC_SHARED_H_

#include <cuda_runtime.h>

// Its start, 16-byte aligned: the same memory for every T.
template <typename T>
__device__ inline T* SharedMemory() {
  extern __shared__ __align__(16) unsigned char cuda_dynamic_shared_memory[];
  return reinterpret_cast<T*>(cuda_dynamic_shared_memory);
}

#endif  // SLUICE_THIRD_PARTY_CUDA_INCLUDE_CUDA_DYNAMIC_SHARED_H_
