// What is made again in backward, on cards, instead of being kept from forward: the first
// activation of a network of convolutions, which is its largest, where a batch norm makes it and
// only the gradient of the pooling behind it reads it again. No value changes. Pure; any thread.
#ifndef SLUICE_FRAMEWORK_COMPILER_MAKE_AGAIN_H_
#define SLUICE_FRAMEWORK_COMPILER_MAKE_AGAIN_H_

#include "absl/status/statusor.h"
#include "framework/compiler/fuse.h"
#include "framework/compiler/grid.h"

namespace sluice {

// After fusion (fuse_on_cards.h), whose gradients make gelu and norms again by themselves. Errors:
// of the verifier of graphs, which would be a bug of the rewrite.
absl::StatusOr<FusedProgram> MakeAgain(const Graph& graph, const SbpAssignment& assignment,
                                       const Grid& grid);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMPILER_MAKE_AGAIN_H_
