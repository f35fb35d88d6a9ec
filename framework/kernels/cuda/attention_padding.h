// What cuDNN's attention has to be told of rows behind a sample's length, and what it leaves there.
// Lengths are not: its engines that take them let queries see keys of padding (9.14, H200). For the
// files of this package only.
#ifndef SLUICE_FRAMEWORK_KERNELS_CUDA_ATTENTION_PADDING_H_
#define SLUICE_FRAMEWORK_KERNELS_CUDA_ATTENTION_PADDING_H_

#include <cstdint>

#include "absl/status/status.h"
#include "framework/kernels/cuda/attention_tiles.h"

namespace sluice::cuda {

inline int64_t PaddingBiasBytes(int64_t time, int64_t samples) { return 2 * samples * time * time; }

// What is added to the scores of some samples, [queries, keys] each: so little for keys of padding
// that nothing is left of their weights. Tells of lengths that none can be.
absl::Status MakePaddingBias(const KernelContext& context, int64_t time, const int32_t* lengths,
                             int64_t first_sample, int64_t samples, uint16_t* bias);

// Of forward: cuDNN's log-sum-exps [batch, heads, time] into [batch, time, heads], and zeros into
// rows of padding, there and in y. `lengths`: null where there is no padding.
absl::Status TakeLogSumExps(const KernelContext& context, const AttentionShape& shape,
                            const int32_t* lengths, const float* from, float* logsumexp,
                            uint16_t* y);

// Of the gradient: log-sum-exps as cuDNN has them, for queries of padding so large that they have
// no weights.
absl::Status GiveLogSumExps(const KernelContext& context, const AttentionShape& shape,
                            const int32_t* lengths, const float* logsumexp, float* to);

}  // namespace sluice::cuda

#endif  // SLUICE_FRAMEWORK_KERNELS_CUDA_ATTENTION_PADDING_H_
