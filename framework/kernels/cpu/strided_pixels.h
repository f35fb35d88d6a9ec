// Convolutions with a kernel of one element and a stride, as shortcuts around blocks are: for
// convolution.cc.
#ifndef SLUICE_FRAMEWORK_KERNELS_CPU_STRIDED_PIXELS_H_
#define SLUICE_FRAMEWORK_KERNELS_CPU_STRIDED_PIXELS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "framework/kernels/cpu/convolution.h"

namespace sluice::cpu {

class StridedPixels : public Convolution {
 public:
  static bool Suits(const ConvolutionShape& shape);
  static absl::StatusOr<std::shared_ptr<const Convolution>> Make(ConvolutionPass pass,
                                                                 const ConvolutionShape& shape,
                                                                 int threads);
  void Run(const KernelContext& context, const ConvolutionOperands& operands,
           std::byte* scratch) const override;
  int64_t scratch() const override { return scratch_; }
  std::string implementation() const override { return dense_->implementation(); }

 private:
  void Gather(const KernelContext& context, const std::byte* x, std::byte* dense) const;
  void Scatter(const KernelContext& context, const std::byte* dense, std::byte* x) const;

  ConvolutionPass pass_ = ConvolutionPass::kForward;
  ConvolutionShape shape_;
  std::shared_ptr<const Convolution> dense_;  // over the pixels that are read
  int64_t pixel_bytes_ = 0;
  int64_t dense_x_ = 0, scratch_ = 0;  // in scratch: where those pixels lie, and its size
};

}  // namespace sluice::cpu

#endif  // SLUICE_FRAMEWORK_KERNELS_CPU_STRIDED_PIXELS_H_
