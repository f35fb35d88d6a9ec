// Labels that must be among all classes. For the files of this package only.
#ifndef SLUICE_FRAMEWORK_KERNELS_CPU_CLASSES_H_
#define SLUICE_FRAMEWORK_KERNELS_CPU_CLASSES_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "framework/kernels/classes.h"

namespace sluice::cpu {

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
