// Kernels that are wrong on purpose, one mistake each: what looks for mistakes of ours, a tool of
// compute-sanitizer on a card or the emulation on a CPU, has to find every one of them, and nothing
// in the one that is right.
#ifndef SLUICE_FRAMEWORK_TESTING_WRONG_KERNELS_H_
#define SLUICE_FRAMEWORK_TESTING_WRONG_KERNELS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace sluice {

struct WrongKernel {
  std::string name;  // "shared_race"
  std::string tool;  // of compute-sanitizer that finds it; "all": it is right, so none may
  std::string what;  // in a few words
};

absl::Span<const WrongKernel> WrongKernels();

// Runs the kernel of that name on the first card and waits for it. InvalidArgument: there is none;
// else what the runtime says, which may be nothing: most of these mistakes are silent.
absl::Status RunWrongKernel(const std::string& name);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TESTING_WRONG_KERNELS_H_
