// Counts what kernels move: the bytes of device memory that a launch touches, each once however
// often it does. A card's caches keep what is touched again, as far as they reach, so this is the
// least that its memory has to do.
#ifndef SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_TRAFFIC_H_
#define SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_TRAFFIC_H_

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "framework/testing/cuda_emulation/emulation.h"

namespace sluice::cuda_emulation {

// While one operation runs, as the caller sees to.
class Traffic {
 public:
  void Touch(uintptr_t address, size_t bytes, bool loads, bool stores);
  // What was touched since the last time was a launch of `kernel`.
  void EndLaunch(const std::string& kernel);
  std::vector<KernelTraffic> Take();

 private:
  static constexpr size_t kPageBytes = 4096;
  struct Page {
    std::bitset<kPageBytes> loaded, stored;
  };

  std::unordered_map<uintptr_t, Page> pages_;  // of the launch
  std::map<std::string, KernelTraffic> kernels_;
};

}  // namespace sluice::cuda_emulation

#endif  // SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_TRAFFIC_H_
