// Clipping by the global norm of all gradients, over all axes and stages.
#ifndef SLUICE_FRAMEWORK_PASSES_CLIP_H_
#define SLUICE_FRAMEWORK_PASSES_CLIP_H_

#include <vector>

#include "framework/graph/graph.h"
#include "framework/passes/backward.h"

namespace sluice {

struct GlobalNorm {
  Tensor norm;    // before clipping
  Tensor factor;  // what every gradient is to be multiplied by; empty where max_norm is 0
  std::vector<Tensor> squares;  // the sum of squares of each gradient
};

// Squares are added up in one sum, in the order of `gradients`. Update phase. Errors stick to the
// graph; the tensors are then empty.
GlobalNorm AddGlobalNorm(Graph* graph, const VariableGradients& gradients, double max_norm);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_PASSES_CLIP_H_
