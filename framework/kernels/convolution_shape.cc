#include "framework/kernels/convolution_shape.h"

#include "framework/base/status.h"
#include "framework/kernels/prepared.h"

namespace sluice {

ConvolutionPlaces PlacesOf(ConvolutionPass pass) {
  switch (pass) {
    case ConvolutionPass::kForward:
      return {0, 1, 2};
    case ConvolutionPass::kInputGradient:
      return {2, 1, 0};
    case ConvolutionPass::kWeightGradient:
      return {0, 2, 1};
  }
  return {0, 1, 2};
}

absl::StatusOr<ConvolutionShape> ConvolutionShapeOf(const KernelSpec& spec, ConvolutionPass pass) {
  const DType dtype = spec.inputs[0].dtype;
  const bool of_weights = pass == ConvolutionPass::kWeightGradient;
  if (dtype != DType::kF32 && dtype != DType::kBF16) return NoKernel(spec);
  RETURN_IF_ERROR(RequireTypes(spec, {dtype, dtype, of_weights ? DType::kF32 : dtype}));
  ASSIGN_OR_RETURN(const ConvolutionAttributes a,
                   ParseAttributes<ConvolutionAttributes>(spec.attributes));
  const auto local = [&](int i) { return i < 2 ? spec.inputs[i].local : spec.outputs[0].local; };
  const ConvolutionPlaces places = PlacesOf(pass);
  const Shape x = local(places.x), w = local(places.w), y = local(places.y);
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
                          .operands = dtype};
}

}  // namespace sluice
