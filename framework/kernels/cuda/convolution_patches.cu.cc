#include "framework/kernels/cuda/convolution_patches.h"

#include <cuda_runtime.h>

#include "framework/kernels/cuda/launch.h"

namespace sluice::cuda {
namespace {

constexpr int kThreads = 256;

Grid GridFor(int64_t threads) {
  return {dim3(static_cast<unsigned>((threads + kThreads - 1) / kThreads)), dim3(kThreads)};
}

// Under a tap at a place; -1: nothing.
__device__ int64_t PixelAt(const PatchAxis& axis, int64_t place, int64_t tap) {
  const int64_t at = place * axis.places_step + tap * axis.taps_step + axis.offset;
  if (at < 0 || at % axis.divisor != 0) return -1;
  const int64_t pixel = at / axis.divisor;
  return pixel < axis.pixels ? pixel : -1;
}

// A thread a unit, so many bytes as channels of a group allow to move at once; `geometry.channels`
// counts units.
template <typename Unit>
__global__ void __launch_bounds__(kThreads)
    Gather(PatchGeometry geometry, int64_t first, int64_t units, const Unit* images,
           Unit* patches) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= units) return;
  const int64_t channel = i % geometry.channels;
  int64_t rest = i / geometry.channels;
  const int64_t tap_column = rest % geometry.width.taps;
  rest /= geometry.width.taps;
  const int64_t tap_row = rest % geometry.height.taps;
  rest /= geometry.height.taps;
  const int64_t group = rest % geometry.groups;
  rest = rest / geometry.groups + first;
  const int64_t column = PixelAt(geometry.width, rest % geometry.width.places, tap_column);
  rest /= geometry.width.places;
  const int64_t row = PixelAt(geometry.height, rest % geometry.height.places, tap_row);
  const int64_t image = rest / geometry.height.places;
  Unit value = {};
  if (row >= 0 && column >= 0) {
    const int64_t pixel = (image * geometry.height.pixels + row) * geometry.width.pixels + column;
    value = images[(pixel * geometry.groups + group) * geometry.channels + channel];
  }
  patches[i] = value;
}

template <typename Unit>
absl::Status GatherBy(const KernelContext& context, PatchGeometry geometry, DType dtype,
                      int64_t first, int64_t rows, const std::byte* images, std::byte* patches) {
  geometry.channels = geometry.channels * SizeOf(dtype) / static_cast<int64_t>(sizeof(Unit));
  const int64_t units = rows * geometry.RowElements();
  return Launch(context, Gather<Unit>, GridFor(units), geometry, first, units,
                reinterpret_cast<const Unit*>(images), reinterpret_cast<Unit*>(patches));
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    Turn(WeightGeometry geometry, int64_t elements, const T* weights, T* turned) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= elements) return;
  const int64_t channel = i % geometry.channels;
  int64_t rest = i / geometry.channels;
  const int64_t out = rest % geometry.out;
  rest /= geometry.out;
  const int64_t tap = rest % geometry.taps;
  const int64_t group = rest / geometry.taps;
  turned[i] =
      weights[((tap * geometry.channels + channel) * geometry.groups + group) * geometry.out + out];
}

}  // namespace

absl::Status GatherPatches(const KernelContext& context, const PatchGeometry& geometry, DType dtype,
                           int64_t first, int64_t rows, const std::byte* images,
                           std::byte* patches) {
  const uintptr_t alike = static_cast<uintptr_t>(geometry.channels * SizeOf(dtype)) |
                          reinterpret_cast<uintptr_t>(images) |
                          reinterpret_cast<uintptr_t>(patches);
  const auto gather = alike % 16 == 0  ? GatherBy<uint4>
                      : alike % 8 == 0 ? GatherBy<uint2>
                      : alike % 4 == 0 ? GatherBy<uint32_t>
                                       : GatherBy<uint16_t>;
  return gather(context, geometry, dtype, first, rows, images, patches);
}

absl::Status TurnWeights(const KernelContext& context, const WeightGeometry& geometry, DType dtype,
                         const std::byte* weights, std::byte* turned) {
  const int64_t elements = geometry.Elements();
  const auto turn = [&]<typename T>(T) {
    return Launch(context, Turn<T>, GridFor(elements), geometry, elements,
                  reinterpret_cast<const T*>(weights), reinterpret_cast<T*>(turned));
  };
  return dtype == DType::kBF16 ? turn(uint16_t()) : turn(uint32_t());
}

}  // namespace sluice::cuda
