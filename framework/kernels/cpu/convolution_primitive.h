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

// Moves weights between a tensor and the layout that a primitive likes. One thread at a time.
class WeightsReorder {
 public:
  WeightsReorder(WeightsReorder&&) noexcept;
  WeightsReorder& operator=(WeightsReorder&&) noexcept;
  ~WeightsReorder();
  void Run(const std::byte* from, std::byte* to) const;

 private:
  friend class ConvolutionPrimitive;
  struct Call;
  WeightsReorder();
  std::unique_ptr<Call> call_;
};

class ConvolutionPrimitive {
 public:
  // NotFoundError if oneDNN offers nothing but its reference implementation, or one that copies
  // images apart first (im2col) and allocates megabytes in every call.
  static absl::StatusOr<ConvolutionPrimitive> Prepare(ConvolutionPass pass,
                                                      const ConvolutionShape& shape);
  ConvolutionPrimitive(ConvolutionPrimitive&&) noexcept;
  ConvolutionPrimitive& operator=(ConvolutionPrimitive&&) noexcept;
  ~ConvolutionPrimitive();

  // Computes what the pass is for of the other two. `w` is as the primitive likes it, of
  // weights_bytes(), `scratch` of scratch_bytes(). One thread at a time.
  void Run(const std::byte* x, const std::byte* w, const std::byte* y, std::byte* scratch) const;
  int64_t weights_bytes() const;
  int64_t scratch_bytes() const;
  bool LikesSameWeights(const ConvolutionPrimitive& other) const;
  // Of a tensor's weights of the input channels (of a group) in the range, into their places. The
  // range's ends are multiples of 64 or the last. Both pointers are those of all weights. Errors:
  // as Prepare.
  absl::StatusOr<WeightsReorder> Pack(Range channels) const;
  // Of a gradient, into a tensor of `out_channels`, of which the primitive's are the first.
  absl::StatusOr<WeightsReorder> Unpack(int64_t out_channels) const;
  // oneDNN's name for what it chose: "brgconv:avx512_core".
  const std::string& implementation() const;

 private:
  struct Call;
  ConvolutionPrimitive();
  std::unique_ptr<Call> call_;
};

}  // namespace sluice::cpu

#endif  // SLUICE_FRAMEWORK_KERNELS_CPU_CONVOLUTION_PRIMITIVE_H_
