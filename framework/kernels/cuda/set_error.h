// How a kernel says what it found wrong (device/cuda_errors.h). For kernels of this package only.
#ifndef SLUICE_FRAMEWORK_KERNELS_CUDA_SET_ERROR_H_
#define SLUICE_FRAMEWORK_KERNELS_CUDA_SET_ERROR_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "framework/device/cuda_errors.h"

namespace sluice::cuda {

// Expected something in [0, limit), got a value, in a row.
__device__ inline void SetError(const DeviceErrors& errors, DeviceErrorKind kind, int64_t value,
                                int64_t limit, int64_t row) {
  if (atomicCAS(&errors.cell->taken, 0u, 1u) != 0u) return;
  errors.cell->kind = kind;
  errors.cell->place = errors.place;
  errors.cell->step = *errors.step;
  errors.cell->value = value;
  errors.cell->limit = limit;
  errors.cell->row = row;
}

}  // namespace sluice::cuda

#endif  // SLUICE_FRAMEWORK_KERNELS_CUDA_SET_ERROR_H_
