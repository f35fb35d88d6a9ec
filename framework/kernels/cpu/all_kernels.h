// The kernels of the CPU device, one function an op; all_kernels.cc lists them by name. Each checks
// dtypes and fixes shapes; the errors are NotFound (no kernel for these dtypes) and InternalError.
#ifndef SLUICE_FRAMEWORK_KERNELS_CPU_ALL_KERNELS_H_
#define SLUICE_FRAMEWORK_KERNELS_CPU_ALL_KERNELS_H_

#include "framework/kernels/cpu/prepared.h"

namespace sluice::cpu {

// ---- matmul.cc ----
PreparedKernel PrepareMatMul(const KernelSpec& spec);
PreparedKernel PrepareMatMulInputGradient(const KernelSpec& spec);
PreparedKernel PrepareMatMulRightGradient(const KernelSpec& spec);
PreparedKernel PrepareMatMulWeightGradient(const KernelSpec& spec);

// ---- arithmetic.cc ----
PreparedKernel PrepareAdd(const KernelSpec& spec);
PreparedKernel PrepareSubtract(const KernelSpec& spec);
PreparedKernel PrepareMultiply(const KernelSpec& spec);
PreparedKernel PrepareDivide(const KernelSpec& spec);
PreparedKernel PrepareScale(const KernelSpec& spec);
PreparedKernel PrepareAddN(const KernelSpec& spec);
PreparedKernel PrepareSqrt(const KernelSpec& spec);

// ---- movement.cc ----
PreparedKernel PrepareFill(const KernelSpec& spec);
PreparedKernel PrepareCopy(const KernelSpec& spec);  // reshape, copy
PreparedKernel PrepareTranspose(const KernelSpec& spec);
PreparedKernel PrepareTransposeGradient(const KernelSpec& spec);
PreparedKernel PrepareSlice(const KernelSpec& spec);
PreparedKernel PreparePad(const KernelSpec& spec);
PreparedKernel PrepareConcat(const KernelSpec& spec);
PreparedKernel PrepareCast(const KernelSpec& spec);
PreparedKernel PrepareBroadcast(const KernelSpec& spec);

// ---- reduction.cc ----
PreparedKernel PrepareReduce(const KernelSpec& spec);
PreparedKernel PrepareSumSquares(const KernelSpec& spec);

// ---- activation.cc ----
PreparedKernel PrepareGelu(const KernelSpec& spec);
PreparedKernel PrepareGeluGradient(const KernelSpec& spec);
PreparedKernel PrepareSilu(const KernelSpec& spec);
PreparedKernel PrepareSiluGradient(const KernelSpec& spec);
PreparedKernel PrepareRelu(const KernelSpec& spec);
PreparedKernel PrepareReluGradient(const KernelSpec& spec);
PreparedKernel PrepareSoftmax(const KernelSpec& spec);
PreparedKernel PrepareSoftmaxGradient(const KernelSpec& spec);
PreparedKernel PrepareDropout(const KernelSpec& spec);

// ---- normalization.cc ----
PreparedKernel PrepareLayerNorm(const KernelSpec& spec);
PreparedKernel PrepareLayerNormGradient(const KernelSpec& spec);
PreparedKernel PrepareLayerNormParameterGradient(const KernelSpec& spec);

// ---- attention.cc ----
PreparedKernel PrepareAttention(const KernelSpec& spec);
PreparedKernel PrepareAttentionGradient(const KernelSpec& spec);

// ---- embedding.cc ----
PreparedKernel PrepareEmbedding(const KernelSpec& spec);
PreparedKernel PrepareEmbeddingGradient(const KernelSpec& spec);
PreparedKernel PrepareAddSparse(const KernelSpec& spec);
PreparedKernel PrepareSumSquaresSparse(const KernelSpec& spec);

// ---- cross_entropy.cc ----
PreparedKernel PrepareCrossEntropyMax(const KernelSpec& spec);
PreparedKernel PrepareCrossEntropySumExp(const KernelSpec& spec);
PreparedKernel PrepareCrossEntropyPick(const KernelSpec& spec);
PreparedKernel PrepareCrossEntropyCombine(const KernelSpec& spec);
PreparedKernel PrepareCrossEntropyGradient(const KernelSpec& spec);

// ---- optimizer.cc ----
PreparedKernel PrepareClipFactor(const KernelSpec& spec);
PreparedKernel PrepareSgd(const KernelSpec& spec);
PreparedKernel PrepareSgdSparse(const KernelSpec& spec);
PreparedKernel PrepareAdamW(const KernelSpec& spec);
PreparedKernel PrepareAdamWSparse(const KernelSpec& spec);
PreparedKernel PrepareAssign(const KernelSpec& spec);
PreparedKernel PrepareAssignSparse(const KernelSpec& spec);

// ---- box.cc ----
PreparedKernel PrepareFold(const KernelSpec& spec);
PreparedKernel PrepareAccumulate(const KernelSpec& spec);

}  // namespace sluice::cpu

#endif  // SLUICE_FRAMEWORK_KERNELS_CPU_ALL_KERNELS_H_
