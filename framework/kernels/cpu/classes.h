// The classes of which a shard has the logits, and labels that must be among all of them. For the
// files of this package only.
#ifndef SLUICE_FRAMEWORK_KERNELS_CPU_CLASSES_H_
#define SLUICE_FRAMEWORK_KERNELS_CPU_CLASSES_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "framework/tensor/shard.h"

namespace sluice::cpu {

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

inline absl::Status CheckLabels(const char* op, const int32_t* labels, int64_t n, int64_t limit) {
  for (int64_t i = 0; i < n; ++i) {
    if (labels[i] >= 0 && labels[i] < limit) continue;
    return absl::OutOfRangeError(
        absl::StrCat(op, ": expected labels in [0, ", limit, "), got ", labels[i], " in row ", i));
  }
  return absl::OkStatus();
}

}  // namespace sluice::cpu

#endif  // SLUICE_FRAMEWORK_KERNELS_CPU_CLASSES_H_
