// On cards, the loss of a language model by pieces of its positions: logits, their cross entropy
// and its gradient of one piece, then of the next, each in the bytes of the one before. Logits are
// the largest tensor of such a step, and the first that backward is done with: all of them at once
// are what the card must have room for. The price is a pass over the gradient of the table for each
// piece but the first, which adds to it. Pure; any thread.
//
// The gradient of the table is a sum by pieces then, and not of all positions at once: this alone
// changes values, by roundings of f32. Losses and gradients of activations keep their bits as far
// as the library's products do.
#ifndef SLUICE_FRAMEWORK_COMPILER_CUT_LOSSES_H_
#define SLUICE_FRAMEWORK_COMPILER_CUT_LOSSES_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "framework/compiler/fuse.h"
#include "framework/compiler/grid.h"

namespace sluice {

// Before FuseOnCards; of the first loss that can be cut. Pieces have at most `largest` bytes of
// logits a device, if positions can be cut so. Errors: of the verifier of graphs, which would be a
// bug of the rewrite.
absl::StatusOr<FusedProgram> CutLosses(const Graph& graph, const SbpAssignment& assignment,
                                       const Grid& grid, int64_t largest);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMPILER_CUT_LOSSES_H_
