// The gradient by weights of a kernel of one element over many pixels, in parts of these. For
// convolution.cc.
#ifndef SLUICE_FRAMEWORK_KERNELS_CPU_PIXEL_PARTS_H_
#define SLUICE_FRAMEWORK_KERNELS_CPU_PIXEL_PARTS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "framework/kernels/cpu/convolution.h"
#include "framework/kernels/cpu/multiplication.h"

namespace sluice::cpu {

class PixelParts : public Convolution {
 public:
  // By the number of pixels alone, since the order of sums depends on it, and layouts of a mesh
  // that cut channels must agree. REQUIRES: a kernel of one element that moves by one, no padding.
  static bool Suits(const ConvolutionShape& shape);
  static absl::StatusOr<std::shared_ptr<const Convolution>> Make(const ConvolutionShape& shape,
                                                                 int threads);
  void Run(const KernelContext& context, const ConvolutionOperands& operands,
           std::byte* scratch) const override;
  int64_t scratch() const override { return layout_.bytes(); }
  std::string implementation() const override { return parts_[0].run.implementation(); }

 private:
  struct Part {
    int64_t first;  // pixel
    Multiplication run;
    int64_t sums;  // where in scratch
  };
  struct Worker {
    Range parts;
    int64_t library;  // where in scratch oneDNN works
  };
  void AddUp(const KernelContext& context, std::byte* scratch, float* dw) const;

  // The product is rows x columns: of channels and out channels, or the other way about.
  int64_t rows_ = 0, columns_ = 0;
  bool turned_ = false;
  std::vector<Part> parts_;
  std::vector<Worker> workers_;
  ScratchLayout layout_;
};

}  // namespace sluice::cpu

#endif  // SLUICE_FRAMEWORK_KERNELS_CPU_PIXEL_PARTS_H_
