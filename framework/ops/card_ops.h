// Ops that stand for several, as a card makes them in one pass: a matrix product with what follows
// it, by cuBLASLt's epilogues, layer norm with the addition before it, and its gradient with the
// addition behind it. No model, gradient or pass writes them but compiler/fuse_on_cards.h, for CUDA
// devices, which alone have kernels of them; each is defined by the ops that it stands for.
#ifndef SLUICE_FRAMEWORK_OPS_CARD_OPS_H_
#define SLUICE_FRAMEWORK_OPS_CARD_OPS_H_

#include "framework/graph/op_def.h"

namespace sluice {

// Attributes are the product's. The bias is a vector, as long as the product's rows.
const OpDef& MatMulBiasOp();         // a, b, bias -> y
const OpDef& MatMulBiasGeluOp();     // a, b, bias -> gelu(y)
const OpDef& MatMulBiasGeluAuxOp();  // a, b, bias -> gelu(y), y
// dy, b, x -> dx: gelu_gradient of x and of what matmul_input_gradient makes of dy and b.
const OpDef& MatMulInputGradientGeluGradientOp();
// a, b, gamma, beta -> y, mean, rstd, a + b: layer_norm of the sum of two tensors of one type.
const OpDef& AddLayerNormOp();
// dy, x, gamma, mean, rstd, other -> other + layer_norm_gradient of the first five; and dropout of
// that sum, or of the sum in bf16.
const OpDef& LayerNormGradientAddOp();
const OpDef& LayerNormGradientAddDropoutOp();
const OpDef& LayerNormGradientAddCastDropoutOp();

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_OPS_CARD_OPS_H_
