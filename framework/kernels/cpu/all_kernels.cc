#include "framework/kernels/cpu/all_kernels.h"

#include "absl/strings/str_cat.h"

namespace sluice {

absl::Span<const KernelEntry> CpuKernels() {
  static const KernelEntry kernels[] = {
      {"matmul", cpu::PrepareMatMul},
      {"matmul_input_gradient", cpu::PrepareMatMulInputGradient},
      {"matmul_right_gradient", cpu::PrepareMatMulRightGradient},
      {"matmul_weight_gradient", cpu::PrepareMatMulWeightGradient},
      {"add", cpu::PrepareAdd},
      {"subtract", cpu::PrepareSubtract},
      {"multiply", cpu::PrepareMultiply},
      {"divide", cpu::PrepareDivide},
      {"scale", cpu::PrepareScale},
      {"add_n", cpu::PrepareAddN},
      {"sqrt", cpu::PrepareSqrt},
      {"fill", cpu::PrepareFill},
      {"reshape", cpu::PrepareCopy},
      {"copy", cpu::PrepareCopy},
      {"transpose", cpu::PrepareTranspose},
      {"transpose_gradient", cpu::PrepareTransposeGradient},
      {"slice", cpu::PrepareSlice},
      {"pad", cpu::PreparePad},
      {"concat", cpu::PrepareConcat},
      {"cast", cpu::PrepareCast},
      {"broadcast", cpu::PrepareBroadcast},
      {"reduce", cpu::PrepareReduce},
      {"sum_squares", cpu::PrepareSumSquares},
      {"gelu", cpu::PrepareGelu},
      {"gelu_gradient", cpu::PrepareGeluGradient},
      {"silu", cpu::PrepareSilu},
      {"silu_gradient", cpu::PrepareSiluGradient},
      {"relu", cpu::PrepareRelu},
      {"relu_gradient", cpu::PrepareReluGradient},
      {"softmax", cpu::PrepareSoftmax},
      {"softmax_gradient", cpu::PrepareSoftmaxGradient},
      {"dropout", cpu::PrepareDropout},
      {"layer_norm", cpu::PrepareLayerNorm},
      {"layer_norm_gradient", cpu::PrepareLayerNormGradient},
      {"layer_norm_parameter_gradient", cpu::PrepareLayerNormParameterGradient},
      {"attention", cpu::PrepareAttention},
      {"attention_gradient", cpu::PrepareAttentionGradient},
      {"embedding", cpu::PrepareEmbedding},
      {"embedding_gradient", cpu::PrepareEmbeddingGradient},
      {"add_sparse", cpu::PrepareAddSparse},
      {"sum_squares_sparse", cpu::PrepareSumSquaresSparse},
      {"ce_max", cpu::PrepareCrossEntropyMax},
      {"ce_sum_exp", cpu::PrepareCrossEntropySumExp},
      {"ce_pick", cpu::PrepareCrossEntropyPick},
      {"ce_combine", cpu::PrepareCrossEntropyCombine},
      {"ce_gradient", cpu::PrepareCrossEntropyGradient},
      {"clip_factor", cpu::PrepareClipFactor},
      {"sgd", cpu::PrepareSgd},
      {"sgd_sparse", cpu::PrepareSgdSparse},
      {"adamw", cpu::PrepareAdamW},
      {"adamw_sparse", cpu::PrepareAdamWSparse},
      {"sgd_value", cpu::PrepareSgd},
      {"sgd_sparse_value", cpu::PrepareSgdSparse},
      {"adamw_value", cpu::PrepareAdamW},
      {"adamw_sparse_value", cpu::PrepareAdamWSparse},
      {"assign", cpu::PrepareAssign},
      {"assign_sparse", cpu::PrepareAssignSparse},
      {"fold", cpu::PrepareFold},
      {"accumulate", cpu::PrepareAccumulate},
  };
  return kernels;
}

absl::StatusOr<std::unique_ptr<Kernel>> PrepareCpuKernel(const KernelSpec& spec) {
  for (const KernelEntry& entry : CpuKernels()) {
    if (entry.op == spec.op) return entry.prepare(spec);
  }
  return cpu::NoKernel(spec);
}

}  // namespace sluice
