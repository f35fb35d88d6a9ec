// The classes that a shard holds, for kernels that look labels up in them. For the files of this
// package only.
#ifndef SLUICE_FRAMEWORK_KERNELS_CUDA_HELD_CLASSES_H_
#define SLUICE_FRAMEWORK_KERNELS_CUDA_HELD_CLASSES_H_

#include <cstdint>

#include "framework/kernels/classes.h"
#include "framework/kernels/cuda/set_error.h"

namespace sluice::cuda {

// Of one firing.
struct HeldClasses {
  int64_t begin, held, whole;
  HeldClasses(const Classes& classes, int64_t micro)
      : begin(classes.BeginAt(micro)), held(classes.held), whole(classes.whole) {}

  // The label's column, which others than the shard may hold. A label that no class has gives -1;
  // one thread of a row tells of it.
  __device__ int64_t ColumnOf(int64_t label, int64_t row, bool tells, DeviceErrors errors) const {
    if (label >= 0 && label < whole) return label - begin;
    if (tells) SetError(errors, DeviceErrorKind::kLabel, label, whole, row);
    return -1;
  }
  __device__ bool Holds(int64_t column) const { return column >= 0 && column < held; }
};

}  // namespace sluice::cuda

#endif  // SLUICE_FRAMEWORK_KERNELS_CUDA_HELD_CLASSES_H_
