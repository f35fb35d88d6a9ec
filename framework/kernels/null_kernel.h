// The null device's kernels compute nothing and count everything: a plan can be run through the
// whole runtime, and its protocol timed, without arithmetic.
#ifndef SLUICE_FRAMEWORK_KERNELS_NULL_KERNEL_H_
#define SLUICE_FRAMEWORK_KERNELS_NULL_KERNEL_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "framework/kernels/kernel.h"

namespace sluice {

// What the null kernels of a device did; owned by the device, which outlives them. Any thread.
struct NullCounts {
  std::atomic<int64_t> runs{0};
  std::atomic<int64_t> bytes{0};  // of inputs and outputs
};

// A kernel for any op. `counts` may be null.
absl::StatusOr<std::unique_ptr<Kernel>> PrepareNullKernel(const KernelSpec& spec,
                                                          NullCounts* counts = nullptr);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_KERNELS_NULL_KERNEL_H_
