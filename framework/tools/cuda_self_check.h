// Whether CUDA works here, before anything is built upon it: a driver, devices, and that they run
// what this build compiled. Any thread; leaves the caller's current device another one.
#ifndef SLUICE_FRAMEWORK_TOOLS_CUDA_SELF_CHECK_H_
#define SLUICE_FRAMEWORK_TOOLS_CUDA_SELF_CHECK_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace sluice {

// How many devices there are, one at least. Unavailable says what the driver says where there is
// none.
absl::StatusOr<int> CountCudaDevices();

// Runs a small kernel on a device and looks at what it has written.
absl::Status CheckCudaDevice(int device);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TOOLS_CUDA_SELF_CHECK_H_
