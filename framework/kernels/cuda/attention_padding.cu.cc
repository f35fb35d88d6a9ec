#include "framework/kernels/cuda/attention_padding.h"

#include "framework/kernels/cuda/elementwise.h"

namespace sluice::cuda {
namespace {

// Of bf16 and of f32. Both are finite, so that no difference of the two is a NaN.
constexpr float kMuch = 1e30f;

__global__ void __launch_bounds__(kElementwiseThreads)
    PaddingBias(int64_t time, const int32_t* lengths, int64_t first_sample, int64_t samples,
                uint16_t* bias, DeviceErrors errors) {
  const int64_t scores = time * time, n = samples * scores;
  for (int64_t i = ThreadIndex(); i < n; i += NumThreads()) {
    const int64_t sample = first_sample + i / scores, length = lengths[sample];
    if (i % scores == 0 && (length < 0 || length > time)) {
      SetError(errors, DeviceErrorKind::kLength, length, time + 1, sample);
    }
    Narrow(i % time < length ? 0 : -kMuch, bias + i);
  }
}

// Where the i-th log-sum-exp of [batch, time, heads] lies in [batch, heads, time], and whether its
// row is padding.
struct Statistic {
  int64_t turned;
  bool padding;

  __device__ Statistic(const AttentionShape& shape, const int32_t* lengths, int64_t i) {
    const int64_t head = i % shape.heads, row = i / shape.heads % shape.time;
    const int64_t sample = i / shape.heads / shape.time;
    turned = (sample * shape.heads + head) * shape.time + row;
    padding = lengths != nullptr && row >= lengths[sample];
  }
};

// An element each, and of y the rows of its head.
__global__ void __launch_bounds__(kElementwiseThreads)
    EndForward(AttentionShape shape, const int32_t* lengths, const float* from, float* logsumexp,
               uint16_t* y) {
  const int64_t n = shape.batch * shape.time * shape.heads;
  for (int64_t i = ThreadIndex(); i < n; i += NumThreads()) {
    const Statistic at(shape, lengths, i);
    logsumexp[i] = at.padding ? 0 : from[at.turned];
    if (!at.padding) continue;
    // cuDNN wants heads of whole packs.
    const F zeros[kPack<uint16_t>] = {};
    for (int64_t c = 0; c < shape.size; c += kPack<uint16_t>) Store(zeros, y + i * shape.size + c);
  }
}

__global__ void __launch_bounds__(kElementwiseThreads)
    BeginGradient(AttentionShape shape, const int32_t* lengths, const float* logsumexp, float* to) {
  const int64_t n = shape.batch * shape.time * shape.heads;
  for (int64_t i = ThreadIndex(); i < n; i += NumThreads()) {
    const Statistic at(shape, lengths, i);
    to[at.turned] = at.padding ? kMuch : logsumexp[i];
  }
}

}  // namespace

absl::Status MakePaddingBias(const KernelContext& context, int64_t time, const int32_t* lengths,
                             int64_t first_sample, int64_t samples, uint16_t* bias) {
  return Launch(context, PaddingBias, GridOver(samples * time * time), time, lengths, first_sample,
                samples, bias, StreamOf(context).errors());
}

absl::Status TakeLogSumExps(const KernelContext& context, const AttentionShape& shape,
                            const int32_t* lengths, const float* from, float* logsumexp,
                            uint16_t* y) {
  return Launch(context, EndForward, GridOver(shape.statistics()), shape, lengths, from, logsumexp,
                y);
}

absl::Status GiveLogSumExps(const KernelContext& context, const AttentionShape& shape,
                            const int32_t* lengths, const float* logsumexp, float* to) {
  return Launch(context, BeginGradient, GridOver(shape.statistics()), shape, lengths, logsumexp,
                to);
}

}  // namespace sluice::cuda
