// Attention by cuDNN, some samples or some heads at a time, with what hides padding from them and
// what is drawn for each of them where weights are dropped: a mask of ours, or a seed for cuDNN's
// own draws. For the files of this package only.
#ifndef SLUICE_FRAMEWORK_KERNELS_CUDA_ATTENTION_DRAWS_H_
#define SLUICE_FRAMEWORK_KERNELS_CUDA_ATTENTION_DRAWS_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/base/status.h"
#include "framework/kernels/cuda/attention_padding.h"
#include "framework/kernels/cuda/attention_tiles.h"
#include "framework/kernels/cuda/cudnn_attention.h"

namespace sluice::cuda {

struct AttentionParts {
  AttentionShape whole;
  CudnnDropout dropout = CudnnDropout::kNone;
  bool causal = true;
  int64_t samples = 0, heads = 0;           // of a part: all heads, or one sample
  int64_t bias_bytes = 0, draws_bytes = 0;  // of scratch
  std::shared_ptr<const CudnnAttention> attention;

  int64_t scratch() const { return bias_bytes + draws_bytes + attention->workspace(); }
  // run(sample, head, operands) for the first sample and the first head of each part, whose
  // operands have its bias and what is drawn for it. `of_firing`: the whole, with what the firing
  // drops; `lengths`: null of a causal op.
  template <typename Run>
  absl::Status ForEach(const KernelContext& context, const AttentionShape& of_firing,
                       const int32_t* lengths, std::byte* scratch, const Run& run) const {
    std::byte* const draws = scratch + bias_bytes;
    for (int64_t sample = 0; sample < whole.batch; sample += samples) {
      if (lengths != nullptr) {
        RETURN_IF_ERROR(MakePaddingBias(context, whole.time, lengths, sample, samples,
                                        reinterpret_cast<uint16_t*>(scratch)));
      }
      for (int64_t head = 0; head < whole.heads; head += heads) {
        CudnnAttention::Operands of;
        of.bias = scratch;
        RETURN_IF_ERROR(Draw(context, of_firing, sample, head, draws, &of));
        run(sample, head, &of);
        RETURN_IF_ERROR(attention->Run(context, of, draws + draws_bytes));
      }
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Draw(const KernelContext& context, const AttentionShape& of_firing, int64_t sample,
                    int64_t head, std::byte* scratch, CudnnAttention::Operands* of) const;
};

// The largest parts whose bias, mask and workspace so many bytes have room for. Those of cuDNN's
// own draws depend on the shape alone, for the gradient must draw what forward drew. Unimplemented:
// cuDNN has no engine for any.
absl::StatusOr<AttentionParts> AttentionPartsOf(AttentionPass pass, const AttentionPlan& plan,
                                                int64_t most_bytes);

// By cuDNN, if the op may go by it and cuDNN has an engine for it, else by a kernel of ours; but
// draws of cuDNN's no other kernel can make.
template <typename ByCudnn, typename Own>
PreparedKernel PrepareByEither(const KernelSpec& spec, const AttentionPlan& plan,
                               const ByCudnn& by_cudnn, const Own& own) {
  absl::Status refusal = absl::UnimplementedError("expected operands of bf16");
  if (MayGoByCudnn(spec)) {
    PreparedKernel prepared = by_cudnn();
    if (StaysWithCudnn(prepared.status())) return prepared;
    refusal = prepared.status();
  }
  if (!plan.LibraryDraws() || plan.shape.statistics() == 0) return own();
  return AddContext(refusal, "library_draws");
}

}  // namespace sluice::cuda

#endif  // SLUICE_FRAMEWORK_KERNELS_CUDA_ATTENTION_DRAWS_H_
