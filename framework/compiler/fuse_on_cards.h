// What CUDA devices alone have as one op (ops/card_ops.h): a matrix product and the bias that is
// added to it, with tanh gelu behind if they are bf16; gradients of inputs and the sum that they
// are terms of; gelu's gradient and its sum for a bias; an addition and the layer norm of its sum;
// layer norm's gradient and the sum that it is added to; dropout and casts of bf16 before and
// behind both; a cast and an addition; both folds of a cross entropy's rows. Each spares a launch
// and a pass over what stood between. And what is made again in backward where a gradient is.
//
// A product of bf16 with what follows it is rounded once where it was rounded twice, and a sum of
// such products after each of them: these alone of all fusion change values, on devices whose
// products have roundings of their own anyhow. f32 keeps its bits. Pure; any thread.
#ifndef SLUICE_FRAMEWORK_COMPILER_FUSE_ON_CARDS_H_
#define SLUICE_FRAMEWORK_COMPILER_FUSE_ON_CARDS_H_

#include "absl/status/statusor.h"
#include "framework/compiler/fuse.h"
#include "framework/compiler/grid.h"
#include "framework/compiler/sbp_assignment.h"
#include "framework/graph/graph.h"

namespace sluice {

// Errors: of the verifier of graphs, which would be a bug of the rewrite.
absl::StatusOr<FusedProgram> FuseOnCards(const Graph& graph, const SbpAssignment& assignment,
                                         const Grid& grid);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMPILER_FUSE_ON_CARDS_H_
