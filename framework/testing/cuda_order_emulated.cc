#include "framework/testing/cuda_emulation/emulation.h"
#include "framework/testing/cuda_order.h"

namespace sluice {

void BeginCudaOrder(uint64_t seed, bool checks) {
  cuda_emulation::Reset(seed);
  cuda_emulation::SetChecks(checks);
}

CudaLaunches CountCudaLaunches() {
  const cuda_emulation::Statistics statistics = cuda_emulation::GetStatistics();
  return {statistics.launches, statistics.graph_launches};
}

int64_t CountStagedCudaCopies() { return cuda_emulation::GetStatistics().staged_copies; }

std::vector<std::string> TakeCudaErrors() { return cuda_emulation::TakeErrors(); }

}  // namespace sluice
