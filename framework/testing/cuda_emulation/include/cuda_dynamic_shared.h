// The dynamic shared memory of the block that runs. With the toolkit a header of this name does it
// by `extern __shared__`, which sources therefore do not write themselves.
#ifndef SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_INCLUDE_CUDA_DYNAMIC_SHARED_H_
#define SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_INCLUDE_CUDA_DYNAMIC_SHARED_H_

#include "cuda_kernel.h"

// Its start, 16-byte aligned: the same memory for every T.
template <typename T>
__device__ inline T* SharedMemory() {
  return static_cast<T*>(::sluice::cuda_emulation::DynamicShared());
}

#endif  // SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_INCLUDE_CUDA_DYNAMIC_SHARED_H_
