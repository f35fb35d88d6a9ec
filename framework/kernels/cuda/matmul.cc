// The four matrix products of a linear layer.
#include "framework/kernels/cuda/all_kernels.h"
#include "framework/kernels/cuda/cublaslt.h"

namespace sluice::cuda {
namespace {

PreparedKernel PrepareProduct(const KernelSpec& spec, MatMulPass pass) {
  ASSIGN_OR_RETURN(const MatMulProduct of, MatMulProductOf(spec, pass));
  MatrixProduct dense = DenseProduct(of.shape);
  dense.alignment = spec.alignment;
  ASSIGN_OR_RETURN(const std::shared_ptr<const CublasLtProduct> product,
                   CublasLtProduct::Prepare(dense, spec.most_scratch));
  return MakeKernel(
      [product, swapped = of.swapped](const KernelContext& context, const Operands& at) {
        return product->Run(context, at.bytes(swapped ? 1 : 0), at.bytes(swapped ? 0 : 1),
                            at.bytes(2), at.scratch<std::byte>());
      },
      product->workspace());
}

}  // namespace

PreparedKernel PrepareMatMul(const KernelSpec& spec) {
  return PrepareProduct(spec, MatMulPass::kForward);
}

PreparedKernel PrepareMatMulInputGradient(const KernelSpec& spec) {
  return PrepareProduct(spec, MatMulPass::kInputGradient);
}

PreparedKernel PrepareMatMulRightGradient(const KernelSpec& spec) {
  return PrepareProduct(spec, MatMulPass::kRightGradient);
}

PreparedKernel PrepareMatMulWeightGradient(const KernelSpec& spec) {
  return PrepareProduct(spec, MatMulPass::kRightGradient);
}

}  // namespace sluice::cuda
