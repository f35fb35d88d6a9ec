// The gradient of a convolution by its weights, through oneDNN. For convolution.cc.
#ifndef SLUICE_FRAMEWORK_KERNELS_CPU_WEIGHT_GRADIENT_H_
#define SLUICE_FRAMEWORK_KERNELS_CPU_WEIGHT_GRADIENT_H_

#include <cstdint>
#include <memory>

#include "framework/kernels/cpu/convolution.h"

namespace sluice::cpu {

// NotFoundError as ConvolutionPrimitive::Prepare.
absl::StatusOr<std::shared_ptr<const Convolution>> PrepareWeightGradient(
    const ConvolutionShape& shape, int threads);

}  // namespace sluice::cpu

#endif  // SLUICE_FRAMEWORK_KERNELS_CPU_WEIGHT_GRADIENT_H_
