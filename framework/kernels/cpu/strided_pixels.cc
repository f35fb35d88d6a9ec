// A kernel of one element with a stride reads some pixels and none of those between. Laid side by
// side they are an image on which the convolution has no stride, and that is a matrix product in
// all three passes. oneDNN 2.6 has no good way of its own: by weights, with AMX, it reaches 20 to
// 120 GFLOP/s on ResNet-50's shortcuts where the product has 500 and more, and by input 50 to 190.
// To copy a quarter of the image takes a few per cent of that.
#include "framework/kernels/cpu/strided_pixels.h"

#include <cstring>
#include <utility>

namespace sluice::cpu {

bool StridedPixels::Suits(const ConvolutionShape& s) {
  return s.kernel_height * s.kernel_width == 1 && s.stride_height * s.stride_width > 1 &&
         s.padding.top == 0 && s.padding.left == 0 &&
         (s.out_height - 1) * s.stride_height < s.height &&
         (s.out_width - 1) * s.stride_width < s.width;
}

absl::StatusOr<std::shared_ptr<const Convolution>> StridedPixels::Make(
    ConvolutionPass pass, const ConvolutionShape& shape, int threads) {
  auto made = std::make_shared<StridedPixels>();
  made->pass_ = pass;
  made->shape_ = shape;
  made->pixel_bytes_ = shape.channels * SizeOf(shape.operands);
  ConvolutionShape dense = shape;
  dense.height = shape.out_height, dense.width = shape.out_width;
  dense.stride_height = dense.stride_width = 1;
  dense.padding = {};
  ASSIGN_OR_RETURN(made->dense_, Prepare(pass, dense, threads));
  ScratchLayout parts;
  parts.Reserve(made->dense_->scratch());
  made->dense_x_ = parts.Reserve(shape.images * shape.Places() * made->pixel_bytes_);
  made->scratch_ = parts.bytes();
  return std::shared_ptr<const Convolution>(std::move(made));
}

void StridedPixels::Run(const KernelContext& context, const ConvolutionOperands& at,
                        std::byte* scratch) const {
  std::byte* const dense = scratch + dense_x_;
  if (pass_ != ConvolutionPass::kInputGradient) Gather(context, at.x, dense);
  dense_->Run(context, {dense, at.w, at.y}, scratch);
  if (pass_ == ConvolutionPass::kInputGradient) Scatter(context, dense, at.x);
}

void StridedPixels::Gather(const KernelContext& context, const std::byte* x,
                           std::byte* dense) const {
  const ConvolutionShape& s = shape_;
  const int64_t row = s.out_width * pixel_bytes_;
  ParallelRows(context, s.images * s.out_height, row, kCheapGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t image = i / s.out_height, p = i % s.out_height;
      const std::byte* from = x + (image * s.height + p * s.stride_height) * s.width * pixel_bytes_;
      for (int64_t q = 0; q < s.out_width; ++q) {
        std::memcpy(dense + i * row + q * pixel_bytes_, from + q * s.stride_width * pixel_bytes_,
                    pixel_bytes_);
      }
    }
  });
}

// Of the pixels between, which the result does not depend on, the gradient is zero.
void StridedPixels::Scatter(const KernelContext& context, const std::byte* dense,
                            std::byte* x) const {
  const ConvolutionShape& s = shape_;
  const int64_t row = s.width * pixel_bytes_;
  ParallelRows(context, s.images * s.height, row, kCheapGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      std::byte* const to = x + i * row;
      std::memset(to, 0, row);
      const int64_t image = i / s.height, p = i % s.height / s.stride_height;
      if (i % s.height % s.stride_height != 0 || p >= s.out_height) continue;
      const std::byte* from = dense + (image * s.out_height + p) * s.out_width * pixel_bytes_;
      for (int64_t q = 0; q < s.out_width; ++q) {
        std::memcpy(to + q * s.stride_width * pixel_bytes_, from + q * pixel_bytes_, pixel_bytes_);
      }
    }
  });
}

}  // namespace sluice::cpu
