// Errors that CUDA kernels find in what they read: an id that no row has. A kernel is handed a
// DeviceErrors by value and fills the cell of its device, which lies in host memory that kernels
// can write; the host looks at it when a step ends. The first to take the cell is told of.
#ifndef SLUICE_FRAMEWORK_DEVICE_CUDA_ERRORS_H_
#define SLUICE_FRAMEWORK_DEVICE_CUDA_ERRORS_H_

#include <cuda_runtime.h>

#include <cstdint>

namespace sluice {

enum class DeviceErrorKind : int32_t { kId, kLabel };

struct DeviceErrorCell {
  unsigned int taken = 0;
  DeviceErrorKind kind = DeviceErrorKind::kId;
  int32_t place = 0;  // of the instruction, among those that its device was told of
  int64_t step = 0, value = 0, limit = 0, row = 0;
};

struct DeviceErrors {
  DeviceErrorCell* cell = nullptr;
  int32_t place = 0;
  int64_t step = 0;

  // Expected something in [0, limit), got a value, in a row.
  __device__ void Set(DeviceErrorKind kind, int64_t value, int64_t limit, int64_t row) const {
    if (atomicCAS(&cell->taken, 0u, 1u) != 0u) return;
    cell->kind = kind;
    cell->place = place;
    cell->step = step;
    cell->value = value;
    cell->limit = limit;
    cell->row = row;
  }
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DEVICE_CUDA_ERRORS_H_
