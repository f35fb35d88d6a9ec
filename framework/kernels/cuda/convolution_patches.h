// What a convolution reads for each of its places, laid out as rows of a matrix: for conv2d.cc,
// which multiplies them.
#ifndef SLUICE_FRAMEWORK_KERNELS_CUDA_CONVOLUTION_PATCHES_H_
#define SLUICE_FRAMEWORK_KERNELS_CUDA_CONVOLUTION_PATCHES_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "framework/kernels/kernel.h"

namespace sluice::cuda {

// Along one dimension: under tap t of the window at place p lies pixel (p * places_step +
// t * taps_step + offset) / divisor, if that is whole and within the image; else nothing, a zero.
struct PatchAxis {
  int64_t places = 0, taps = 0, pixels = 0;
  int64_t places_step = 1, taps_step = 1, offset = 0, divisor = 1;
};

// Of images [.., height, width, groups, channels]; a row of patches is [groups, taps of height,
// taps of width, channels].
struct PatchGeometry {
  PatchAxis height, width;
  int64_t groups = 1, channels = 0;

  int64_t Depth() const { return height.taps * width.taps * channels; }
  int64_t RowElements() const { return groups * Depth(); }
};

// Rows [first, first + rows) over the places of all images.
absl::Status GatherPatches(const KernelContext& context, const PatchGeometry& geometry, DType dtype,
                           int64_t first, int64_t rows, const std::byte* images,
                           std::byte* patches);

// Weights [taps, channels, groups * out] to [groups, taps, out, channels]: those of the gradient by
// the images, which has the other channels' patches.
struct WeightGeometry {
  int64_t taps = 0, channels = 0, groups = 1, out = 0;
  int64_t Elements() const { return taps * channels * groups * out; }
};
absl::Status TurnWeights(const KernelContext& context, const WeightGeometry& geometry, DType dtype,
                         const std::byte* weights, std::byte* turned);

}  // namespace sluice::cuda

#endif  // SLUICE_FRAMEWORK_KERNELS_CUDA_CONVOLUTION_PATCHES_H_
