// The convolution of images with weights [height, width, input channels, output channels], and its
// gradients.
#include "framework/kernels/cpu/all_kernels.h"
#include "framework/kernels/cpu/convolution.h"

namespace sluice::cpu {
namespace {

absl::StatusOr<ConvolutionShape> ShapeOf(const KernelSpec& spec, const Shape& x, const Shape& w,
                                         const Shape& y) {
  ASSIGN_OR_RETURN(const ConvolutionAttributes a,
                   ParseAttributes<ConvolutionAttributes>(spec.attributes));
  return ConvolutionShape{.images = x[0],
                          .height = x[1],
                          .width = x[2],
                          .channels = x[3],
                          .out_height = y[1],
                          .out_width = y[2],
                          .out_channels = y[3],
                          .kernel_height = w[0],
                          .kernel_width = w[1],
                          .stride_height = a.stride[0],
                          .stride_width = a.stride[1],
                          .dilation_height = a.dilation[0],
                          .dilation_width = a.dilation[1],
                          .padding = SidesOf(a.padding),
                          .groups = a.groups,
                          .operands = spec.inputs[0].dtype};
}

// Which operand of the kernel is x, w and y.
PreparedKernel PrepareConvolution(const KernelSpec& spec, ConvolutionPass pass, int x, int w,
                                  int y) {
  const DType dtype = spec.inputs[0].dtype;
  const bool of_weights = pass == ConvolutionPass::kWeightGradient;
  if (dtype != DType::kF32 && dtype != DType::kBF16) return NoKernel(spec);
  RETURN_IF_ERROR(RequireTypes(spec, {dtype, dtype, of_weights ? DType::kF32 : dtype}));
  const auto local = [&](int i) { return i < 2 ? spec.inputs[i].local : spec.outputs[0].local; };
  ASSIGN_OR_RETURN(const ConvolutionShape shape, ShapeOf(spec, local(x), local(w), local(y)));
  ASSIGN_OR_RETURN(const std::shared_ptr<const Convolution> convolution,
                   Convolution::Prepare(pass, shape, spec.threads));
  return MakeKernel(
      [convolution, x, w, y](const KernelContext& context, const Operands& at) {
        convolution->Run(context, {at.bytes(x), at.bytes(w), at.bytes(y)}, at.scratch<std::byte>());
      },
      convolution->scratch());
}

}  // namespace

PreparedKernel PrepareConv2d(const KernelSpec& spec) {
  return PrepareConvolution(spec, ConvolutionPass::kForward, 0, 1, 2);
}

PreparedKernel PrepareConv2dInputGradient(const KernelSpec& spec) {
  return PrepareConvolution(spec, ConvolutionPass::kInputGradient, 2, 1, 0);
}

PreparedKernel PrepareConv2dWeightGradient(const KernelSpec& spec) {
  return PrepareConvolution(spec, ConvolutionPass::kWeightGradient, 0, 2, 1);
}

}  // namespace sluice::cpu
