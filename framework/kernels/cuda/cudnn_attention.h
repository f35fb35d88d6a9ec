// Causal attention of bf16 operands by cuDNN. What stays with our kernels, and why: f32, for which
// cuDNN has no engine that multiplies f32; padded attention, whose rows behind a sample's length
// are zeros, which cuDNN does not promise; gradients, for which cuDNN takes off the product of dy
// and y alone, which is rounded, where the op takes off the mean of what is left once more.
#ifndef SLUICE_FRAMEWORK_KERNELS_CUDA_CUDNN_ATTENTION_H_
#define SLUICE_FRAMEWORK_KERNELS_CUDA_CUDNN_ATTENTION_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/kernels/kernel.h"

namespace sluice::cuda {

struct CausalAttention {
  int64_t batch = 0, time = 0, heads = 0, size = 0;
  float scale = 1;  // of scores
};

class CudnnAttention {
 public:
  // For the calling thread's device. Unimplemented: cuDNN has no engine for it that does with so
  // many bytes of workspace. Other errors as of CudnnHandle::OfThisDevice, or mistakes of ours.
  // REQUIRES: the shape has elements.
  static absl::StatusOr<std::shared_ptr<const CudnnAttention>> Prepare(
      const CausalAttention& attention, int64_t most_workspace);
  virtual ~CudnnAttention() = default;

  struct Operands {
    std::byte *q, *k, *v, *y;  // [batch, time, heads, size]
    // f32 [batch, heads, time]. cuDNN takes other strides, too, with the same answer byte for byte:
    // whether it heeds them nobody has seen.
    std::byte* logsumexp;
  };
  // Gives it to the firing's stream. `workspace`: workspace() bytes.
  virtual absl::Status Run(const KernelContext& context, const Operands& at,
                           std::byte* workspace) const = 0;
  virtual int64_t workspace() const = 0;
};

}  // namespace sluice::cuda

#endif  // SLUICE_FRAMEWORK_KERNELS_CUDA_CUDNN_ATTENTION_H_
