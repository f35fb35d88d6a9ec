#include "framework/session/cuda_of_build.h"

namespace sluice {

const DeviceSupport* CudaOfThisBuild() { return nullptr; }

}  // namespace sluice
