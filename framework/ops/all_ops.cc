#include "framework/ops/all_ops.h"

#include "framework/ops/card_ops.h"
#include "framework/ops/op_defs.h"

namespace sluice {

absl::Span<const OpDef* const> AllOps() {
  static const OpDef* const ops[] = {
#define SLUICE_OP(Name) &Name##Op(),
#include "framework/ops/op_list.inc"
#undef SLUICE_OP
  };
  return ops;
}

absl::Span<const OpDef* const> CardOps() {
  static const OpDef* const ops[] = {&MatMulBiasOp(),
                                     &MatMulBiasGeluOp(),
                                     &MatMulBiasGeluAuxOp(),
                                     &MatMulInputGradientAddOp(),
                                     &MatMulWeightGradientAddOp(),
                                     &GeluGradientSumOp(),
                                     &GeluErfGradientSumOp(),
                                     &GeluGradientSumAndValueOp(),
                                     &GeluErfGradientSumAndValueOp(),
                                     &CastAddOp(),
                                     &CrossEntropyMaxAndSumExpOp(),
                                     &AddLayerNormOp(),
                                     &AddLayerNormCastOp(),
                                     &AddLayerNormAndCastOp(),
                                     &LayerNormGradientCastOp(),
                                     &LayerNormGradientAddOp(),
                                     &LayerNormGradientAddCastOp(),
                                     &LayerNormGradientAddDropoutOp(),
                                     &LayerNormGradientAddCastDropoutOp(),
                                     &CastLayerNormParameterGradientOp(),
                                     &CastLayerNormParameterGradientAndValueOp()};
  return ops;
}

const OpDef* FindOp(absl::string_view name) {
  for (const auto& ops : {AllOps(), CardOps()}) {
    for (const OpDef* op : ops) {
      if (op->name == name) return op;
    }
  }
  return nullptr;
}

}  // namespace sluice
