// The convolution of images with weights [height, width, input channels, output channels], and its
// gradients.
#include "framework/kernels/cpu/all_kernels.h"
#include "framework/kernels/cpu/convolution.h"

namespace sluice::cpu {
namespace {

PreparedKernel PrepareConvolution(const KernelSpec& spec, ConvolutionPass pass) {
  ASSIGN_OR_RETURN(const ConvolutionShape shape, ConvolutionShapeOf(spec, pass));
  ASSIGN_OR_RETURN(const std::shared_ptr<const Convolution> convolution,
                   Convolution::Prepare(pass, shape, spec.threads));
  return MakeKernel(
      [convolution, is = PlacesOf(pass)](const KernelContext& context, const Operands& at) {
        convolution->Run(context, {at.bytes(is.x), at.bytes(is.w), at.bytes(is.y)},
                         at.scratch<std::byte>());
      },
      convolution->scratch());
}

}  // namespace

PreparedKernel PrepareConv2d(const KernelSpec& spec) {
  return PrepareConvolution(spec, ConvolutionPass::kForward);
}

PreparedKernel PrepareConv2dInputGradient(const KernelSpec& spec) {
  return PrepareConvolution(spec, ConvolutionPass::kInputGradient);
}

PreparedKernel PrepareConv2dWeightGradient(const KernelSpec& spec) {
  return PrepareConvolution(spec, ConvolutionPass::kWeightGradient);
}

}  // namespace sluice::cpu
