// Whether this build has CUDA devices: with --config=cuda, cuda_of_build.cc; else
// no_cuda_of_build.cc.
#ifndef SLUICE_FRAMEWORK_SESSION_CUDA_OF_BUILD_H_
#define SLUICE_FRAMEWORK_SESSION_CUDA_OF_BUILD_H_

#include "framework/kernels/collective_support.h"
#include "framework/kernels/device_support.h"

namespace sluice {

// Null: it has none.
const DeviceSupport* CudaOfThisBuild();
const CollectiveSupport* CollectivesOfThisBuild();

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_SESSION_CUDA_OF_BUILD_H_
