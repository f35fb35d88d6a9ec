// The four matrix products of a linear layer.
#include "framework/kernels/cpu/all_kernels.h"
#include "framework/kernels/cpu/product.h"

namespace sluice::cpu {
namespace {

PreparedKernel PrepareProduct(const KernelSpec& spec, MatMulPass pass) {
  ASSIGN_OR_RETURN(const MatMulProduct of, MatMulProductOf(spec, pass));
  ASSIGN_OR_RETURN(const std::shared_ptr<const Product> product,
                   Product::Prepare(of.shape, spec.threads));
  return MakeKernel(
      [product, swapped = of.swapped](const KernelContext& context, const Operands& at) {
        product->Run(context, at.bytes(swapped ? 1 : 0), at.bytes(swapped ? 0 : 1), at.bytes(2),
                     at.scratch<std::byte>());
      },
      product->scratch());
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

}  // namespace sluice::cpu
