// Loops over the elements of arrays that lie alike: 16 bytes of each at a time where their starts
// allow it, single elements at the end, and the one rule for how many threads there are. No result
// depends on that number. For the files of this package only.
#ifndef SLUICE_FRAMEWORK_KERNELS_CUDA_ELEMENTWISE_H_
#define SLUICE_FRAMEWORK_KERNELS_CUDA_ELEMENTWISE_H_

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "framework/kernels/cuda/launch.h"
#include "framework/kernels/cuda/pack.h"

namespace sluice::cuda {

// Of a block. Eight blocks fill a processor of those that there are since 2020, and as many for
// each processor of the largest of them are one wave; what is more is walked with a stride.
constexpr int kElementwiseThreads = 256;
constexpr int64_t kMostBlocks = 8 * 132;

// For so many items, one a thread at a time. Threads that would find nothing are not started.
inline Grid GridOver(int64_t items, int64_t most_threads = kElementwiseThreads) {
  const int64_t threads = std::clamp<int64_t>((items + 31) / 32 * 32, 32, most_threads);
  const int64_t blocks = std::min(kMostBlocks, (items + threads - 1) / threads);
  return {dim3(static_cast<unsigned>(blocks)), dim3(static_cast<unsigned>(threads))};
}

// The place of the calling thread among all threads, which is its first item, and their number.
SLUICE_INLINE int64_t ThreadIndex() { return int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
SLUICE_INLINE int64_t NumThreads() { return int64_t{gridDim.x} * blockDim.x; }

// The elements of a loop: so many times `width` at once, then the others.
struct Elements {
  int64_t n, width, wide;
  Grid grid() const { return GridOver(std::max(wide, n - wide * width)); }
};
// Of n elements of arrays that begin at `pointers`; `width` as in ForElements.
template <typename... P>
Elements ElementsOf(int64_t n, int64_t width, const P*... pointers) {
  return {n, width, PackAligned(pointers...) ? n / width : 0};
}

// body(i, Count<width>()) or body(i, Count<1>()): for so many elements from i on. A width is that
// of packs of the smallest type that is loaded or stored.
template <int width, typename Body>
SLUICE_INLINE void ForElements(const Elements& elements, Body&& body) {
  const int64_t first = ThreadIndex(), threads = NumThreads();
  for (int64_t i = first; i < elements.wide; i += threads) body(i * width, Count<width>());
  for (int64_t i = elements.wide * width + first; i < elements.n; i += threads) body(i, Count<1>());
}

// kernel(pointers.., elements), which walks its elements by packs of T.
template <typename T, typename... P, typename... A>
absl::Status LaunchOver(const KernelContext& context, int64_t n, void (*kernel)(P...),
                        A*... pointers) {
  if (n == 0) return absl::OkStatus();
  const Elements elements = ElementsOf(n, kPack<T>, pointers...);
  return Launch(context, kernel, elements.grid(), pointers..., elements);
}

}  // namespace sluice::cuda

#endif  // SLUICE_FRAMEWORK_KERNELS_CUDA_ELEMENTWISE_H_
