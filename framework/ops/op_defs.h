// The OpDef of every op, for those who need one op rather than the list (all_ops.h). Each is made
// on first use and lives forever; any thread.
#ifndef SLUICE_FRAMEWORK_OPS_OP_DEFS_H_
#define SLUICE_FRAMEWORK_OPS_OP_DEFS_H_

#include "framework/graph/op_def.h"

namespace sluice {

// ---- matmul.cc ---- factors mean the same in all four: a [..mk] b [kn] y [..mn]
const OpDef& MatMulOp();
const OpDef& MatMulInputGradientOp();   // dy, b -> da; attributes of the forward op
const OpDef& MatMulRightGradientOp();   // a, dy -> db of equal leading dimensions
const OpDef& MatMulWeightGradientOp();  // x, dy -> db of a shared matrix

// ---- arithmetic.cc ----
const OpDef& AddOp();
const OpDef& SubtractOp();
const OpDef& MultiplyOp();
const OpDef& DivideOp();
const OpDef& ScaleOp();
const OpDef& AddNOp();
const OpDef& SqrtOp();

// ---- movement.cc, layout.cc ----
const OpDef& FillOp();
const OpDef& ReshapeOp();
const OpDef& TransposeOp();
const OpDef& TransposeGradientOp();  // the permutation of the forward op, undone
const OpDef& SliceOp();
const OpDef& PadOp();
const OpDef& ConcatOp();
const OpDef& CastOp();
const OpDef& BroadcastOp();

// ---- reduction.cc ----
const OpDef& ReduceOp();
const OpDef& SumSquaresOp();

// ---- activation.cc ----
const OpDef& GeluOp();
const OpDef& GeluGradientOp();  // x, dy
const OpDef& SiluOp();
const OpDef& SiluGradientOp();  // x, dy
const OpDef& ReluOp();
const OpDef& ReluGradientOp();  // x, dy
const OpDef& SoftmaxOp();
const OpDef& SoftmaxGradientOp();  // y, dy
const OpDef& DropoutOp();

// ---- normalization.cc ----
const OpDef& LayerNormOp();                   // x, gamma, beta -> y, mean, rstd
const OpDef& LayerNormGradientOp();           // dy, x, gamma, mean, rstd -> dx
const OpDef& LayerNormParameterGradientOp();  // dy, x, mean, rstd -> dgamma, dbeta

// ---- attention.cc ----
const OpDef& AttentionOp();          // q, k, v -> y, logsumexp [b,t,h]
const OpDef& AttentionGradientOp();  // q, k, v, y, logsumexp, dy -> dq, dk, dv

// ---- embedding.cc ----
const OpDef& EmbeddingOp();
const OpDef& EmbeddingGradientOp();  // ids, dy -> dtable
const OpDef& AddSparseOp();          // dense, ids, values -> dense
const OpDef& SumSquaresSparseOp();   // ids, values -> []

// ---- cross_entropy.cc ----
const OpDef& CrossEntropyMaxOp();       // logits -> max
const OpDef& CrossEntropySumExpOp();    // logits, max -> sum of exp(logit - max)
const OpDef& CrossEntropyPickOp();      // logits, labels -> logit of the label
const OpDef& CrossEntropyCombineOp();   // max, sum, picked -> log(sum) + max - picked
const OpDef& CrossEntropyGradientOp();  // logits, max, sum, labels, dpicked -> dlogits

// ---- optimizer.cc ----
const OpDef& ClipFactorOp();
const OpDef& SgdOp();          // variable!, gradient, factor, learning_rate, [momentum!]
const OpDef& SgdSparseOp();    // variable!, ids, values, factor, learning_rate, [momentum!]
const OpDef& AdamWOp();        // variable!, m!, v!, gradient, factor, learning_rate, step
const OpDef& AdamWSparseOp();  // variable!, m!, v!, ids, values, factor, learning_rate, step
// The same without change of the variable -> what it becomes; of the rows forms: each row named.
const OpDef& SgdValueOp();
const OpDef& SgdSparseValueOp();
const OpDef& AdamWValueOp();
const OpDef& AdamWSparseValueOp();
const OpDef& AssignOp();        // variable!, value
const OpDef& AssignSparseOp();  // variable!, ids, rows

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_OPS_OP_DEFS_H_
