// Errors that CUDA kernels find in what they read: an id that no row has. A kernel is handed a
// DeviceErrors by value and fills the cell of its device (kernels/cuda/set_error.h), which lies in
// host memory that kernels can write; the host looks at it when a step ends. The first to take the
// cell is told of.
#ifndef SLUICE_FRAMEWORK_DEVICE_CUDA_ERRORS_H_
#define SLUICE_FRAMEWORK_DEVICE_CUDA_ERRORS_H_

#include <cstdint>

namespace sluice {

enum class DeviceErrorKind : int32_t { kId, kLabel, kLength, kPosition, kNan };

struct DeviceErrorCell {
  unsigned int taken = 0;
  DeviceErrorKind kind = DeviceErrorKind::kId;
  int32_t place = 0;  // of the instruction, among those that its device was told of
  int64_t step = 0, value = 0, limit = 0, row = 0;
};

struct DeviceErrors {
  DeviceErrorCell* cell = nullptr;
  int32_t place = 0;
  const int64_t* step = nullptr;  // in device memory: a launch that is replayed knows no other
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DEVICE_CUDA_ERRORS_H_
