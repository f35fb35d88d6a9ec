// Mixed precision: the products of a program, the ops that say so (OpDef::computes_in), read and
// write a smaller type, all else stays as it is. Run before the backward pass, whose products then
// are of that type too; what is added up inside of a product stays f32, and so do parameters, their
// gradients and the optimizer.
#ifndef SLUICE_FRAMEWORK_PASSES_CAST_PRODUCTS_H_
#define SLUICE_FRAMEWORK_PASSES_CAST_PRODUCTS_H_

#include "framework/passes/pass.h"

namespace sluice {

// REQUIRES: a float type.
GraphPass CastProducts(DType dtype);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_PASSES_CAST_PRODUCTS_H_
