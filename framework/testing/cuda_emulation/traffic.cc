#include "framework/testing/cuda_emulation/traffic.h"

namespace sluice::cuda_emulation {

void Traffic::Touch(uintptr_t address, size_t bytes, bool loads, bool stores) {
  for (const uintptr_t end = address + bytes; address < end; ++address) {
    Page& page = pages_[address / kPageBytes];
    if (loads) page.loaded.set(address % kPageBytes);
    if (stores) page.stored.set(address % kPageBytes);
  }
}

void Traffic::EndLaunch(const std::string& kernel) {
  KernelTraffic& traffic = kernels_[kernel];
  traffic.kernel = kernel;
  ++traffic.launches;
  for (const auto& [number, page] : pages_) {
    traffic.loaded += static_cast<int64_t>(page.loaded.count());
    traffic.stored += static_cast<int64_t>(page.stored.count());
  }
  pages_.clear();
}

std::vector<KernelTraffic> Traffic::Take() {
  std::vector<KernelTraffic> taken;
  for (auto& [name, traffic] : kernels_) taken.push_back(std::move(traffic));
  kernels_.clear();
  return taken;
}

}  // namespace sluice::cuda_emulation
