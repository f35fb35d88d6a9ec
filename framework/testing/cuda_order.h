// What tests of CUDA devices ask of the emulation, where that is what runs them: an order of
// streams, blocks and threads, whether accesses are checked, and what was found. On a card, with
// --config=cuda, nobody is asked and nothing is found: compute-sanitizer looks there.
#ifndef SLUICE_FRAMEWORK_TESTING_CUDA_ORDER_H_
#define SLUICE_FRAMEWORK_TESTING_CUDA_ORDER_H_

#include <cstdint>
#include <string>
#include <vector>

namespace sluice {

// As if the process began anew, with an order of the seed's. While nothing runs on a device.
void BeginCudaOrder(uint64_t seed, bool checks);
// What the device was given since: launches one by one, and graphs. Zeros on a card.
struct CudaLaunches {
  int64_t kernels = 0, graphs = 0;
};
CudaLaunches CountCudaLaunches();
// Copies between cards that went through memory of the host since. None on a card.
int64_t CountStagedCudaCopies();
// What was found since; it is forgotten.
std::vector<std::string> TakeCudaErrors();

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TESTING_CUDA_ORDER_H_
