// What cross entropy compares a row of logits with. For the files of kernels/cpu and kernels/cuda
// only.
#ifndef SLUICE_FRAMEWORK_KERNELS_SMOOTHED_TARGET_H_
#define SLUICE_FRAMEWORK_KERNELS_SMOOTHED_TARGET_H_

#include "absl/status/statusor.h"
#include "framework/attributes/attributes.h"
#include "framework/base/status.h"
#include "framework/kernels/classes.h"
#include "framework/kernels/kernel.h"

namespace sluice {

// What the label has of the target alone, and what each class has.
struct SmoothedTarget {
  float label, share;
};

inline absl::StatusOr<SmoothedTarget> SmoothedTargetOf(const KernelSpec& spec,
                                                       const Classes& classes) {
  ASSIGN_OR_RETURN(const CrossEntropyAttributes attributes,
                   ParseAttributes<CrossEntropyAttributes>(spec.attributes));
  return SmoothedTarget{
      static_cast<float>(1 - attributes.smoothing),
      static_cast<float>(attributes.smoothing / static_cast<double>(classes.whole))};
}

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_KERNELS_SMOOTHED_TARGET_H_
