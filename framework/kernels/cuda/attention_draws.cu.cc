#include "framework/kernels/cuda/attention_draws.h"

#include <algorithm>

#include "framework/kernels/cuda/elementwise.h"
#include "framework/tensor/score_bytes.h"

namespace sluice::cuda {
namespace {

constexpr int64_t kAlignment = 256;
int64_t Aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// The heads of a part, `time` rows of `time` keys each. `first`: the logical index of its first
// weight.
struct MaskShape {
  int64_t samples, heads, time, first;
  bool causal;
  int64_t weights() const { return samples * heads * time * time; }
};

// Ones where a weight is kept. What no row sees is zero: cuDNN may read it, and it needs no draw;
// but of padding draws are made, too.
// `width` keys of a row at once, whose draws are whole blocks of Philox, or one.
template <int width>
__global__ void __launch_bounds__(kElementwiseThreads)
    WeightMask(MaskShape shape, WeightDropout dropout, uint16_t* mask) {
  const int64_t items_of_row = shape.time / width;
  const int64_t items = shape.samples * shape.heads * shape.time * items_of_row;
  for (int64_t item = ThreadIndex(); item < items; item += NumThreads()) {
    const int64_t row = item / items_of_row, key = item % items_of_row * width;
    const int64_t query = row % shape.time, pair = row / shape.time;
    const int64_t index = shape.first + pair / shape.heads * dropout.of_sample +
                          pair % shape.heads * dropout.of_head + query * shape.time + key;
    const int64_t seen = shape.causal ? query + 1 : shape.time;
    F kept[width] = {};
    const auto put = [&](int e, uint32_t word) {
      kept[e] = key + e < seen && word >= dropout.threshold ? 1 : 0;
    };
    if constexpr (width == 1) {
      if (key < seen) put(0, PhiloxWord(dropout.draw, index));
    } else {
      for (int e = 0; e < width; e += 4) {
        if (key + e >= seen) break;
        const uint4 words = PhiloxWords(dropout.draw, (index + e) / 4);
        put(e, words.x);
        put(e + 1, words.y);
        put(e + 2, words.z);
        put(e + 3, words.w);
      }
    }
    Store(kept, mask + item * width);
  }
}

// A seed for cuDNN's draws, and the offset 0: of the step, of the op, and of the part's first
// weight.
__global__ void __launch_bounds__(32)
    DrawnSeed(Draw draw, int64_t first, int64_t* seed, int64_t* offset) {
  if (threadIdx.x != 0) return;
  const uint4 words = PhiloxWords(draw, first);
  *seed = static_cast<int64_t>(uint64_t{words.y} << 32 | words.x);
  *offset = 0;
}

CudnnDropout DropoutOf(const AttentionPlan& plan) {
  if (!plan.dropped.drops) return CudnnDropout::kNone;
  return plan.LibraryDraws() ? CudnnDropout::kDraws : CudnnDropout::kMask;
}

int64_t DrawsBytes(CudnnDropout dropout, int64_t scores) {
  if (dropout == CudnnDropout::kNone) return 0;
  return dropout == CudnnDropout::kMask ? Aligned(scores) : 2 * kAlignment;
}

// Of draws of cuDNN's: whether so many heads are few enough.
bool AreFewEnoughToDraw(const AttentionShape& s, int64_t heads) {
  return ScoreBytes(heads, s.time) <= kMostScoreBytes;
}

}  // namespace

absl::Status AttentionParts::Draw(const KernelContext& context, const AttentionShape& of_firing,
                                  int64_t sample, int64_t head, std::byte* scratch,
                                  CudnnAttention::Operands* of) const {
  if (dropout == CudnnDropout::kNone) return absl::OkStatus();
  const WeightDropout& drops = of_firing.dropout;
  const int64_t first = drops.first + sample * drops.of_sample + head * drops.of_head;
  if (dropout == CudnnDropout::kDraws) {
    of->seed = scratch, of->offset = scratch + kAlignment;
    return Launch(context, DrawnSeed, Grid{dim3(1), dim3(32)}, drops.draw, first,
                  reinterpret_cast<int64_t*>(of->seed), reinterpret_cast<int64_t*>(of->offset));
  }
  of->mask = scratch;
  auto* const mask = reinterpret_cast<uint16_t*>(scratch);
  const MaskShape shape = {samples, heads, whole.time, first, causal};
  if (whole.time % kPack<uint16_t> == 0) {
    return Launch(context, WeightMask<kPack<uint16_t>>, GridOver(shape.weights() / kPack<uint16_t>),
                  shape, drops, mask);
  }
  return Launch(context, WeightMask<1>, GridOver(shape.weights()), shape, drops, mask);
}

absl::StatusOr<AttentionParts> AttentionPartsOf(AttentionPass pass, const AttentionPlan& plan,
                                                int64_t most_bytes) {
  const AttentionShape& s = plan.shape;
  const CudnnDropout dropout = DropoutOf(plan);
  const bool draws = dropout == CudnnDropout::kDraws;
  absl::Status refusal = absl::UnimplementedError("no workspace has room for a head's scores");
  for (int64_t all = s.batch * s.heads; all > 0; --all) {
    AttentionParts parts;
    parts.whole = s;
    parts.dropout = dropout;
    parts.causal = !plan.IsPadded();
    parts.samples = std::max<int64_t>(1, all / s.heads);
    parts.heads = std::min(all, s.heads);
    if (parts.samples * parts.heads != all || s.batch % parts.samples != 0 ||
        s.heads % parts.heads != 0 || (draws && !AreFewEnoughToDraw(s, all))) {
      continue;
    }
    const int64_t scores = 2 * all * s.time * s.time;
    if (!parts.causal) parts.bias_bytes = Aligned(PaddingBiasBytes(s.time, parts.samples));
    parts.draws_bytes = DrawsBytes(dropout, scores);
    const int64_t beside = parts.bias_bytes + parts.draws_bytes;
    const int64_t workspace = pass == AttentionPass::kGradient ? scores : 0;
    if (!draws && beside + workspace > most_bytes) continue;
    CudnnAttentionShape part;
    part.batch = parts.samples, part.heads = parts.heads, part.time = s.time, part.size = s.size;
    part.causal = parts.causal;
    part.row_heads = s.heads;
    part.scale = s.scale;
    part.dropout = dropout;
    part.keep = 1 / plan.dropped.scale;
    auto attention = CudnnAttention::Prepare(pass, part, most_bytes - beside);
    if (attention.ok()) {
      parts.attention = *std::move(attention);
      return parts;
    }
    refusal = attention.status();
    // Fewer heads want less beside their operands, if they want anything.
    if (!absl::IsUnimplemented(refusal) || draws || beside + workspace == 0) break;
  }
  return refusal;
}

}  // namespace sluice::cuda
