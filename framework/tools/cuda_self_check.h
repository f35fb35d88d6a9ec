// Whether a CUDA card runs what this build compiled, before anything is built upon it. Any thread;
// leaves it with that card as its current one.
#ifndef SLUICE_FRAMEWORK_TOOLS_CUDA_SELF_CHECK_H_
#define SLUICE_FRAMEWORK_TOOLS_CUDA_SELF_CHECK_H_

#include "absl/status/status.h"

namespace sluice {

// Runs a small kernel on a card and looks at what it has written.
absl::Status CheckCudaCard(int card);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TOOLS_CUDA_SELF_CHECK_H_
