// The number of a step where kernels read it: in device memory, as the arguments of launches that a
// CUDA graph repeats are of the step in which it was captured.
#ifndef SLUICE_FRAMEWORK_DEVICE_CUDA_STEP_H_
#define SLUICE_FRAMEWORK_DEVICE_CUDA_STEP_H_

#include <cuda_runtime.h>

#include <cstdint>

namespace sluice {

// Gives a stream of the caller's current card the writing of a number into device memory.
cudaError_t WriteCudaStep(cudaStream_t stream, int64_t* to, int64_t step);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DEVICE_CUDA_STEP_H_
