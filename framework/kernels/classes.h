// The classes of which a shard has the logits. For the files of kernels/cpu and kernels/cuda only.
#ifndef SLUICE_FRAMEWORK_KERNELS_CLASSES_H_
#define SLUICE_FRAMEWORK_KERNELS_CLASSES_H_

#include <cstdint>

#include "framework/tensor/shard.h"

namespace sluice {

struct Classes {
  int64_t begin, per_micro, held, whole;

  // Of logits [..., classes].
  explicit Classes(const Shard& logits) {
    const int last = logits.local.rank() - 1;
    begin = logits.offset[last];
    per_micro = logits.stride_per_micro[last];
    held = logits.local[last];
    whole = logits.logical[last];
  }
  int64_t BeginAt(int64_t micro) const { return begin + micro * per_micro; }
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_KERNELS_CLASSES_H_
