// Mixed precision: what multiplies much reads and writes bf16, parameters, their gradients, the
// optimizer and all sums stay f32. Run before the backward pass, whose ops are of the types of the
// forward ones. What each op can do says OpDef::computes_in:
//
//   kLow     its operands are cast to bf16: products, attention
//   kEither  bf16 if an activation comes in bf16: a parameter beside it is cast, an f32 activation
//            beside it has it cast up instead; the residual stream is of its own type
//   kF32     what comes in bf16 is cast up: layer norm, embeddings
//
// A tensor is cast once, however many read it, and what depends on parameters alone is computed
// once a step, so a weight is cast once a step. A weight that is stored in parts (zero.h) is
// gathered in f32 and cast where it is read, and the bf16 is kept from forward to backward: no rule
// lets the cast follow the stored parts yet.
#ifndef SLUICE_FRAMEWORK_PASSES_MIXED_PRECISION_H_
#define SLUICE_FRAMEWORK_PASSES_MIXED_PRECISION_H_

#include "framework/passes/pass.h"

namespace sluice {

struct PrecisionOptions {
  DType compute = DType::kF32;   // f32 or bf16; f32: all stays as it is
  DType residual = DType::kF32;  // of tensors of Role::kResidual; f32 unless `compute` is bf16
};

GraphPass MixedPrecision(const PrecisionOptions& options);

// Finishes a forward program, in the precision that the model computes in.
absl::Status FinishIn(const PrecisionOptions& options, Graph* graph);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_PASSES_MIXED_PRECISION_H_
