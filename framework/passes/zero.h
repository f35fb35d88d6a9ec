// ZeRO: what training keeps of a parameter is split over devices that would all hold the same.
#ifndef SLUICE_FRAMEWORK_PASSES_ZERO_H_
#define SLUICE_FRAMEWORK_PASSES_ZERO_H_

#include <string>

#include "absl/status/status.h"
#include "framework/graph/graph.h"
#include "framework/passes/backward.h"
#include "framework/sbp/mesh.h"

namespace sluice {

struct ZeroOptions {
  // What is split: 0 nothing, 1 the state of the optimizer, 2 gradients as well while they are
  // added up over micro-batches, 3 the parameters as well. With one micro-batch 1 and 2 are the
  // same: a gradient is reduced into the parts of its state, and its terms are kept no longer than
  // that.
  int level = 0;
  std::string axis = "data";
  Mesh mesh;  // that the program is for; without the axis nothing is split
};

// Annotates, at levels 1 to 3, each parameter that has no annotation on the axis. It splits the
// first dimension whose extent the axis divides and that no other axis of the mesh splits, else the
// first that the axis divides together with those others: slices of the first dimension are runs of
// bytes, which are read in place. A parameter that has no such dimension stays whole. It comes
// before the updates are added.
absl::Status SplitParameters(const ZeroOptions& options, Graph* graph);

// Levels 2 and 3: a dense gradient is reduced micro-batch by micro-batch into the parts of its
// state, and adds up there: for the memory of whole gradients, bytes on the wire as often as there
// are micro-batches.
void SplitGradients(const ZeroOptions& options, const VariableGradients& gradients, Graph* graph);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_PASSES_ZERO_H_
