// Attention of bf16 operands by cuDNN, and its gradient. f32 stays with our kernels: cuDNN has no
// engine for it that multiplies f32.
#ifndef SLUICE_FRAMEWORK_KERNELS_CUDA_CUDNN_ATTENTION_H_
#define SLUICE_FRAMEWORK_KERNELS_CUDA_CUDNN_ATTENTION_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/kernels/cuda/cudnn_attention_graph.h"
#include "framework/kernels/kernel.h"

namespace sluice::cuda {

enum class AttentionPass { kForward, kGradient };

class CudnnAttention {
 public:
  // For the calling thread's device. Unimplemented: cuDNN has no engine for it that does with so
  // many bytes of workspace. Other errors as of CudnnHandle::OfThisDevice, or mistakes of ours.
  // REQUIRES: the shape has elements.
  static absl::StatusOr<std::shared_ptr<const CudnnAttention>> Prepare(
      AttentionPass pass, const CudnnAttentionShape& shape, int64_t most_workspace);
  virtual ~CudnnAttention() = default;

  struct Operands {
    // [batch, time, heads, size]. Of y the gradient knows but its product with dy, a number a row,
    // which it takes off that row's slopes; where a mask drops, y is to be `keep` times the op's.
    std::byte *q, *k, *v, *y;
    // f32 [batch, heads, time]. cuDNN takes other strides, too, with the same answer byte for byte:
    // whether it heeds them nobody has seen.
    std::byte* logsumexp;
    // Of the gradient; `slopes` as the log-sum-exps, of no use to anybody else.
    std::byte *dy = nullptr, *slopes = nullptr, *dq = nullptr, *dk = nullptr, *dv = nullptr;
    std::byte* bias = nullptr;  // bf16 [batch, queries, keys]; if not causal
    // Of dropout: bf16 [batch, heads, queries, keys], or two i64.
    std::byte *mask = nullptr, *seed = nullptr, *offset = nullptr;
  };
  // Gives it to the firing's stream. `workspace`: workspace() bytes.
  virtual absl::Status Run(const KernelContext& context, const Operands& at,
                           std::byte* workspace) const = 0;
  virtual int64_t workspace() const = 0;
};

// Whether cuDNN may be asked for an op, whose operands have elements.
bool MayGoByCudnn(const KernelSpec& spec);
// Whether a kernel that cuDNN was asked for is what it answered. What cuDNN takes for nonsense is a
// mistake of ours, which our kernels should not hide.
inline bool StaysWithCudnn(const absl::Status& status) {
  return status.ok() || absl::IsInvalidArgument(status) || absl::IsInternal(status);
}

}  // namespace sluice::cuda

#endif  // SLUICE_FRAMEWORK_KERNELS_CUDA_CUDNN_ATTENTION_H_
