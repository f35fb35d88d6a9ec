// What a kind of device that not every build has brings with it. A runtime is handed it
// (RuntimeOptions::cuda); nothing else of the framework knows of the kind's libraries.
#ifndef SLUICE_FRAMEWORK_KERNELS_DEVICE_SUPPORT_H_
#define SLUICE_FRAMEWORK_KERNELS_DEVICE_SUPPORT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/device/device.h"
#include "framework/kernels/kernel.h"
#include "framework/tensor/dtype.h"

namespace sluice {

// An operand of floats that an instruction writes.
struct WrittenOperand {
  int32_t operand;
  DType dtype;
  int64_t elements;
  // A shard of a maximum or minimum that is partial holds infinities where it has no elements.
  bool may_be_infinite = false;
};

struct DeviceSupport {
  // Bytes that each card of this host has free; DeviceSpec::card counts them. Unavailable: there is
  // none, and why.
  absl::StatusOr<std::vector<int64_t>> (*free_bytes)();
  // What the driver calls each card, "NVIDIA H200". Errors as of free_bytes.
  absl::StatusOr<std::vector<std::string>> (*names)();
  // As OpenDevices, of this kind alone.
  absl::StatusOr<std::vector<std::unique_ptr<Device>>> (*open)(absl::Span<const DeviceSpec> specs);
  // For the device of the stream that the kernel will be given to.
  absl::StatusOr<std::unique_ptr<Kernel>> (*prepare)(const KernelSpec& spec, Stream* stream);
  // With check_nan: the kernel, and one that looks at what it wrote. What it finds comes late, as
  // what the stream's status says.
  std::unique_ptr<Kernel> (*check_nan)(std::unique_ptr<Kernel> kernel,
                                       std::vector<WrittenOperand> written);
  // A kernel of this kind as an instruction of a stream: its launches may touch its operands and
  // its scratch alone, and errors that come late name `place`.
  std::unique_ptr<Kernel> (*place)(std::unique_ptr<Kernel> kernel, const KernelSpec& spec,
                                   const KernelPlace& place, Stream* stream);
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_KERNELS_DEVICE_SUPPORT_H_
