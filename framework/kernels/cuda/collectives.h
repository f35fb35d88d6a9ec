// Collectives of CUDA devices by NCCL, for a runtime (kernels/collective_support.h).
#ifndef SLUICE_FRAMEWORK_KERNELS_CUDA_COLLECTIVES_H_
#define SLUICE_FRAMEWORK_KERNELS_CUDA_COLLECTIVES_H_

#include "framework/kernels/collective_support.h"

namespace sluice {

const CollectiveSupport& NcclSupport();

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_KERNELS_CUDA_COLLECTIVES_H_
