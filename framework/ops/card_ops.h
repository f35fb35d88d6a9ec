// Ops that stand for several, as a card makes them in one pass: a matrix product with what follows
// it, by cuBLASLt's epilogues, or with what it is added to; gelu's gradient with the sum that is a
// bias's; layer norm with the addition before it, and its gradient with the addition behind it;
// both folds of a cross entropy's rows; and gradients with what is made again where they are. No
// model, gradient or pass writes them but compiler/fuse_on_cards.h and compiler/cut_losses.h, for
// CUDA devices, which alone have kernels of them; each is defined by the ops that it stands for.
#ifndef SLUICE_FRAMEWORK_OPS_CARD_OPS_H_
#define SLUICE_FRAMEWORK_OPS_CARD_OPS_H_

#include "framework/graph/op_def.h"

namespace sluice {

// Attributes are the product's. The bias is a vector, as long as the product's rows.
const OpDef& MatMulBiasOp();         // a, b, bias -> y
const OpDef& MatMulBiasGeluOp();     // a, b, bias -> gelu(y)
const OpDef& MatMulBiasGeluAuxOp();  // a, b, bias -> gelu(y), y
// dy, b, other -> other + matmul_input_gradient(dy, b), by whose attributes.
const OpDef& MatMulInputGradientAddOp();
// x, dy, other -> other + matmul_weight_gradient(x, dy), by whose attributes.
const OpDef& MatMulWeightGradientAddOp();
// x, dy -> dx, sum: of either gelu the gradient, and its sum over all dimensions but the last, by
// the attributes of that reduction.
const OpDef& GeluGradientSumOp();
const OpDef& GeluErfGradientSumOp();
// And behind them gelu(x), again.
const OpDef& GeluGradientSumAndValueOp();
const OpDef& GeluErfGradientSumAndValueOp();
bool SumsAllButTheLast(const ReduceAttributes& attributes, const Shape& shape);
// a, b -> a + b, where b is bf16, which is cast.
const OpDef& CastAddOp();
// logits -> max, sum: ce_max, and ce_sum_exp with it, of rows that are whole.
const OpDef& CrossEntropyMaxAndSumExpOp();
// a, b, gamma, beta -> y, mean, rstd, sum: layer_norm of a + dropout(b), where b may be bf16, which
// is cast when it is dropped; with y cast to bf16; and with y in bf16 beside it, behind the sum.
const OpDef& AddLayerNormOp();
const OpDef& AddLayerNormCastOp();
const OpDef& AddLayerNormAndCastOp();
// dy, x, gamma, mean, rstd -> dx, and it in bf16.
const OpDef& LayerNormGradientCastOp();
// dy, x, gamma, mean, rstd, other -> other + layer_norm_gradient of the first five; and what is
// made of that sum: in bf16, dropout of it, dropout of it in bf16. dy may be bf16, which is cast.
const OpDef& LayerNormGradientAddOp();
const OpDef& LayerNormGradientAddCastOp();
const OpDef& LayerNormGradientAddDropoutOp();
const OpDef& LayerNormGradientAddCastDropoutOp();
// layer_norm_parameter_gradient, where dy is bf16.
const OpDef& CastLayerNormParameterGradientOp();
// dy, x, mean, rstd, gamma, beta: and behind those the norm of x, again, in bf16.
const OpDef& CastLayerNormParameterGradientAndValueOp();

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_OPS_CARD_OPS_H_
