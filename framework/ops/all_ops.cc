#include "framework/ops/all_ops.h"

#include "framework/ops/op_defs.h"

namespace sluice {

absl::Span<const OpDef* const> AllOps() {
  static const OpDef* const ops[] = {
      &MatMulOp(),
      &MatMulInputGradientOp(),
      &MatMulRightGradientOp(),
      &MatMulWeightGradientOp(),
      &AddOp(),
      &SubtractOp(),
      &MultiplyOp(),
      &DivideOp(),
      &ScaleOp(),
      &AddNOp(),
      &SqrtOp(),
      &FillOp(),
      &ReshapeOp(),
      &TransposeOp(),
      &TransposeGradientOp(),
      &SliceOp(),
      &PadOp(),
      &ConcatOp(),
      &CastOp(),
      &BroadcastOp(),
      &ReduceOp(),
      &SumSquaresOp(),
      &GeluOp(),
      &GeluGradientOp(),
      &SiluOp(),
      &SiluGradientOp(),
      &ReluOp(),
      &ReluGradientOp(),
      &SoftmaxOp(),
      &SoftmaxGradientOp(),
      &DropoutOp(),
      &LayerNormOp(),
      &LayerNormGradientOp(),
      &LayerNormParameterGradientOp(),
      &AttentionOp(),
      &AttentionGradientOp(),
      &EmbeddingOp(),
      &EmbeddingGradientOp(),
      &AddSparseOp(),
      &SumSquaresSparseOp(),
      &CrossEntropyMaxOp(),
      &CrossEntropySumExpOp(),
      &CrossEntropyPickOp(),
      &CrossEntropyCombineOp(),
      &CrossEntropyGradientOp(),
      &ClipFactorOp(),
      &SgdOp(),
      &SgdSparseOp(),
      &AdamWOp(),
      &AdamWSparseOp(),
      &SgdValueOp(),
      &SgdSparseValueOp(),
      &AdamWValueOp(),
      &AdamWSparseValueOp(),
      &AssignOp(),
      &AssignSparseOp(),
  };
  return ops;
}

const OpDef* FindOp(absl::string_view name) {
  for (const OpDef* op : AllOps()) {
    if (op->name == name) return op;
  }
  return nullptr;
}

}  // namespace sluice
