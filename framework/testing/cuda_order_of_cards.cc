#include "framework/testing/cuda_order.h"

namespace sluice {

void BeginCudaOrder(uint64_t, bool) {}

CudaLaunches CountCudaLaunches() { return {}; }

std::vector<std::string> TakeCudaErrors() { return {}; }

}  // namespace sluice
