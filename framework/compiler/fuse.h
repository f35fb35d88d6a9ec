// Fusion: ops that pass over the same activations one behind the other become one op, after
// selection, in the layouts that it chose. Nothing is fused over a boxing, a stage or a phase, and
// no value changes: fused kernels round as often as the ops that they stand for. Pure; any thread.
#ifndef SLUICE_FRAMEWORK_COMPILER_FUSE_H_
#define SLUICE_FRAMEWORK_COMPILER_FUSE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/compiler/sbp_assignment.h"
#include "framework/graph/graph.h"

namespace sluice {

struct FusedProgram {
  std::unique_ptr<const Graph> graph;
  SbpAssignment assignment;  // of that graph
};

// Errors: of the verifier of graphs, which would be a bug of the rewrite.
absl::StatusOr<FusedProgram> Fuse(const Graph& graph, const SbpAssignment& assignment);

// The ops that no model, gradient or pass writes.
absl::Span<const OpDef* const> FusedOps();

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMPILER_FUSE_H_
