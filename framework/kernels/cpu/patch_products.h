// Convolutions as products of patches, the pixels under a kernel at each of its places, where
// oneDNN has none that keeps bits and memory: below AVX-512 most with dilation, and gradients by
// the input of kernels of 5 and more with a stride. For convolution.cc.
#ifndef SLUICE_FRAMEWORK_KERNELS_CPU_PATCH_PRODUCTS_H_
#define SLUICE_FRAMEWORK_KERNELS_CPU_PATCH_PRODUCTS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "framework/kernels/cpu/convolution.h"
#include "framework/kernels/cpu/product.h"

namespace sluice::cpu {

class PatchProducts : public Convolution {
 public:
  // f32 in one group, on processors whose products are ours.
  static bool Suits(const ConvolutionShape& shape);
  static absl::StatusOr<std::shared_ptr<const Convolution>> Make(ConvolutionPass pass,
                                                                 const ConvolutionShape& shape,
                                                                 int threads);
  void Run(const KernelContext& context, const ConvolutionOperands& operands,
           std::byte* scratch) const override;
  int64_t scratch() const override { return layout_.bytes(); }
  std::string implementation() const override { return block_->implementation(); }

 private:
  // Images of a worker; of the gradient by weights, parts of the batch. And where in scratch it has
  // patches, what a product makes of some places' weights, and the product's own.
  struct Worker {
    Range range;
    int64_t patches, weights, product;
  };
  // What all places of an image read, or, of a gradient, what is added there.
  void RunImage(const KernelContext& context, const ConvolutionOperands& operands, int64_t image,
                const Worker& worker, std::byte* scratch) const;
  void RunPart(const KernelContext& context, const ConvolutionOperands& operands, int64_t part,
               const Worker& worker, std::byte* scratch) const;
  void Gather(const float* image, Range places, float* patches) const;
  void ScatterAdd(const float* patches, Range places, float* image) const;
  // fn(pixel or -1, element of the patch) for every element of the kernel at a place.
  template <typename F>
  void ForKernel(int64_t place, F&& fn) const;

  ConvolutionPass pass_ = ConvolutionPass::kForward;
  ConvolutionShape s_;
  int64_t depth_ = 0, places_ = 0;               // elements of a patch, and places of a block
  int64_t parts_ = 1;                            // of the batch
  std::shared_ptr<const Product> block_, last_;  // of places of an image
  std::vector<Worker> workers_;
  std::vector<int64_t> sums_;  // where in scratch each part has its gradient
  ScratchLayout layout_;
};

}  // namespace sluice::cpu

#endif  // SLUICE_FRAMEWORK_KERNELS_CPU_PATCH_PRODUCTS_H_
