// Which convolutions the ops of conv2d are, from the shards of an instruction: what the kernels of
// all kinds of devices share.
#ifndef SLUICE_FRAMEWORK_KERNELS_CONVOLUTION_SHAPE_H_
#define SLUICE_FRAMEWORK_KERNELS_CONVOLUTION_SHAPE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "framework/attributes/attributes.h"
#include "framework/kernels/kernel.h"

namespace sluice {

enum class ConvolutionPass { kForward, kInputGradient, kWeightGradient };

// x [images, height, width, channels], w [kernel height, kernel width, channels / groups, out
// channels], y [images, out height, out width, out channels], all dense.
struct ConvolutionShape {
  int64_t images = 0, height = 0, width = 0, channels = 0;
  int64_t out_height = 0, out_width = 0, out_channels = 0;
  int64_t kernel_height = 0, kernel_width = 0;
  int64_t stride_height = 1, stride_width = 1, dilation_height = 1, dilation_width = 1;
  PaddingSides padding;
  int64_t groups = 1;
  DType operands = DType::kF32;  // f32 or bf16; weights' gradients are f32 of either

  int64_t Pixels() const { return height * width; }
  int64_t Places() const { return out_height * out_width; }
  int64_t WeightElements() const {
    return kernel_height * kernel_width * (channels / groups) * out_channels;
  }
  int64_t Products() const { return images * Places() * WeightElements(); }
};

// Where a pass has its operands among those of its instruction: inputs, then the output.
struct ConvolutionPlaces {
  int x, w, y;
};
ConvolutionPlaces PlacesOf(ConvolutionPass pass);

// NotFound for dtypes other than f32 and bf16.
absl::StatusOr<ConvolutionShape> ConvolutionShapeOf(const KernelSpec& spec, ConvolutionPass pass);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_KERNELS_CONVOLUTION_SHAPE_H_
