// Copies and fills of device memory, for movement.cu.cc, fold.cu.cc and whoever lays out scratch.
#ifndef SLUICE_FRAMEWORK_KERNELS_CUDA_MOVES_H_
#define SLUICE_FRAMEWORK_KERNELS_CUDA_MOVES_H_

#include <cstddef>
#include <cstdint>

#include "framework/kernels/cuda/strided_index.h"
#include "framework/kernels/prepared.h"

namespace sluice::cuda {

// Bytes that lie together, from other places than they go to.
absl::Status CopyBytes(const KernelContext& context, const std::byte* from, std::byte* to,
                       int64_t bytes);

// So many elements of `size` bytes, whose bits are the low ones of `bits`.
absl::Status FillElements(const KernelContext& context, uint64_t bits, int64_t size, std::byte* to,
                          int64_t n);

// A copy of elements from strides to strides: operand 0 of the extent to operand 1.
class StridedCopy {
 public:
  StridedCopy() = default;
  // Elements of `size` bytes. The copy begins so many elements behind the pointers given to Run.
  StridedCopy(const StridedExtent& extent, int64_t size, int64_t first_from = 0,
              int64_t first_to = 0);
  absl::Status Run(const KernelContext& context, const std::byte* from, std::byte* to) const;

 private:
  // By words that may have several elements. Offsets are in words.
  struct Form {
    int64_t word = 1;  // bytes
    int64_t first_from = 0, first_to = 0;
    StridedIndex<2> index;
  };
  Form widest_, narrow_;
};

}  // namespace sluice::cuda

#endif  // SLUICE_FRAMEWORK_KERNELS_CUDA_MOVES_H_
