#include "framework/session/cuda_of_build.h"

#include "framework/kernels/cuda/collectives.h"
#include "framework/kernels/cuda/support.h"

namespace sluice {

const DeviceSupport* CudaOfThisBuild() { return &CudaSupport(); }
const CollectiveSupport* CollectivesOfThisBuild() { return &NcclSupport(); }

}  // namespace sluice
