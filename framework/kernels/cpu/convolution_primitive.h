// One convolution of fixed shape, or one of its gradients, as a primitive of oneDNN with the layout
// of weights that it likes best. For convolution.cc, which splits convolutions into these.
#ifndef SLUICE_FRAMEWORK_KERNELS_CPU_CONVOLUTION_PRIMITIVE_H_
#define SLUICE_FRAMEWORK_KERNELS_CPU_CONVOLUTION_PRIMITIVE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "framework/kernels/convolution_shape.h"
#include "framework/tensor/dtype.h"
#include "framework/tensor/shape.h"

namespace sluice::cpu {

// Moves weights or images between a tensor and the layout that a primitive likes. One thread at a
// time.
class LayoutReorder {
 public:
  LayoutReorder(LayoutReorder&&) noexcept;
  LayoutReorder& operator=(LayoutReorder&&) noexcept;
  ~LayoutReorder();
  void Run(const std::byte* from, std::byte* to) const;

 private:
  friend class ConvolutionPrimitive;
  struct Call;
  LayoutReorder();
  std::unique_ptr<Call> call_;
};

// How x and y lie: as in a tensor, or as the primitive likes them, which they are moved to first.
enum class ImageLayout { kPlain, kLiked };

class ConvolutionPrimitive {
 public:
  // NotFoundError if oneDNN offers nothing but its reference implementation, or one that copies
  // images apart first (im2col) and allocates megabytes in every call.
  static absl::StatusOr<ConvolutionPrimitive> Prepare(ConvolutionPass pass,
                                                      const ConvolutionShape& shape,
                                                      ImageLayout images = ImageLayout::kPlain);
  ConvolutionPrimitive(ConvolutionPrimitive&&) noexcept;
  ConvolutionPrimitive& operator=(ConvolutionPrimitive&&) noexcept;
  ~ConvolutionPrimitive();

  // Computes what the pass is for of the other two. `w` is as the primitive likes it, of
  // weights_bytes(), `scratch` of scratch_bytes(). One thread at a time.
  void Run(const std::byte* x, const std::byte* w, const std::byte* y, std::byte* scratch) const;
  int64_t weights_bytes() const;
  int64_t scratch_bytes() const;
  bool LikesSameWeights(const ConvolutionPrimitive& other) const;
  // Of a tensor's weights those of a range of the channels (of a group) that the primitive sums
  // over, into their places. The range's ends are multiples of 64 or the last. Both pointers are
  // those of all weights. Errors: as Prepare.
  absl::StatusOr<LayoutReorder> Pack(Range channels) const;
  int64_t channels_to_pack() const;
  // Of a gradient, into a tensor of `out_channels`, of which the primitive's are the first.
  absl::StatusOr<LayoutReorder> Unpack(int64_t out_channels) const;

  // Where it has images as it likes them: one image of x, whose bytes are then as many, and all of
  // y, of a tensor of `out_channels`, of which the primitive's are the first.
  absl::StatusOr<LayoutReorder> PackImage() const;
  absl::StatusOr<LayoutReorder> PackResult(int64_t out_channels) const;
  int64_t image_bytes() const;
  int64_t result_bytes() const;
  bool LikesSameImages(const ConvolutionPrimitive& other) const;
  // oneDNN's name for what it chose: "brgconv:avx512_core".
  const std::string& implementation() const;

 private:
  struct Call;
  ConvolutionPrimitive();
  static absl::StatusOr<ConvolutionPrimitive> Make(ConvolutionPass pass,
                                                   const ConvolutionShape& shape,
                                                   ImageLayout images, bool turned);
  std::unique_ptr<Call> call_;
};

}  // namespace sluice::cpu

#endif  // SLUICE_FRAMEWORK_KERNELS_CPU_CONVOLUTION_PRIMITIVE_H_
