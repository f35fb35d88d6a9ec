// Kernels that run an op's reference implementation: plans execute in f64 (or whatever the graph's
// dtype is), so that a test can compare them with the interpreter to rounding.
#ifndef SLUICE_FRAMEWORK_TESTING_REFERENCE_KERNELS_H_
#define SLUICE_FRAMEWORK_TESTING_REFERENCE_KERNELS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "framework/kernels/kernel.h"

namespace sluice {

// Ops of the catalogue run their reference implementation; what boxing needs (box, accumulate) runs
// plain loops of its own, in the order that the regions say.
absl::StatusOr<std::unique_ptr<Kernel>> PrepareReferenceKernel(const KernelSpec& spec);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TESTING_REFERENCE_KERNELS_H_
