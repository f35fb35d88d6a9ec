#include "framework/session/cuda_of_build.h"

namespace sluice {

const DeviceSupport* CudaOfThisBuild() { return nullptr; }
const CollectiveSupport* CollectivesOfThisBuild() { return nullptr; }

}  // namespace sluice
