// A few ops for the tests of this package, which cannot use the catalogue: it stands above.
#ifndef SLUICE_FRAMEWORK_GRAPH_TOY_OPS_H_
#define SLUICE_FRAMEWORK_GRAPH_TOY_OPS_H_

#include <vector>

#include "framework/graph/graph.h"

namespace sluice::toy {

const OpDef& MatMulOp();    // a [m,k], b [k,n]; transpose_b: b [n,k]
const OpDef& AddNOp();      // any number of equal shapes, at least one
const OpDef& SignsOp();     // x -> its positive part, its negative part
const OpDef& NoiseOp();     // random: x + step + key % 2
const OpDef& ConstantOp();  // no inputs
const OpDef& DescendOp();   // updates: variable -= factor * gradient; no outputs
std::vector<const OpDef*> AllOps();

Tensor MatMul(Tensor a, Tensor b, bool transpose_b = false);
Tensor Add(Tensor a, Tensor b);
void Descend(Tensor variable, Tensor gradient, double factor);

}  // namespace sluice::toy

#endif  // SLUICE_FRAMEWORK_GRAPH_TOY_OPS_H_
