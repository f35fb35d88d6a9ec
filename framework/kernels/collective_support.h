// What does the collectives of a kind of device that not every build has (NCCL those of CUDA
// devices). A runtime is handed it beside the kind's DeviceSupport.
#ifndef SLUICE_FRAMEWORK_KERNELS_COLLECTIVE_SUPPORT_H_
#define SLUICE_FRAMEWORK_KERNELS_COLLECTIVE_SUPPORT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/comm/communicators.h"
#include "framework/kernels/kernel.h"

namespace sluice {

struct CollectiveSupport {
  // A communicator for each group, which are to be connected. Cards are as CardsOf numbers them.
  // `fail` is told what goes wrong after a collective was launched, on another thread.
  absl::StatusOr<std::unique_ptr<Communicators>> (*make)(
      std::vector<CommunicatorGroup> groups, std::function<void(const absl::Status&)> fail);
  // The part of one of the group's devices, for when they are connected. Its launches come from one
  // thread, in the order that all devices of the group have.
  absl::StatusOr<std::unique_ptr<Kernel>> (*prepare)(const KernelSpec& spec,
                                                     Communicators* communicators,
                                                     absl::Span<const int32_t> group,
                                                     int32_t device);
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_KERNELS_COLLECTIVE_SUPPORT_H_
