// Attention over [batch, time, heads, size], causal or padded: threads take heads.
#include "absl/strings/str_cat.h"
#include "framework/kernels/cpu/all_kernels.h"
#include "framework/kernels/cpu/vector.h"
#include "framework/kernels/dropped_weights.h"
#include "framework/tensor/random.h"

namespace sluice::cpu {
namespace {

// The heads of a tensor [b,t,h,d], and the pieces that threads take.
struct Heads {
  AttentionHead head;
  int64_t batch, heads, count, pieces;
  int lengths;  // the operand that says how long each sample is; -1 of a causal op
  DroppedWeights dropped;
  // Where the i-th head's first element lies, and its first statistic in [b,t,h].
  int64_t At(int64_t i) const {
    return (i / heads) * head.time * head.row + (i % heads) * head.size;
  }
  int64_t StatisticAt(int64_t i) const { return (i / heads) * head.time * heads + i % heads; }
  // Of the i-th head, given those of the first.
  WeightDropout DropoutOf(int64_t i, WeightDropout of_first) const {
    of_first.first += i / heads * dropped.of_sample + i % heads * dropped.of_head;
    return of_first;
  }
  WeightDropout DropoutOfFirst(const KernelContext& context) const {
    const std::array<uint32_t, 2> keys = PhiloxKey(context.seed, dropped.key);
    return {dropped.drops,
            dropped.threshold,
            dropped.scale,
            {keys[0], keys[1], context.step},
            dropped.first + context.micro * dropped.of_micro};
  }
};

absl::StatusOr<Heads> HeadsOf(const KernelSpec& spec, bool gradient, bool padded) {
  const DType dtype = spec.inputs[0].dtype, f32 = DType::kF32;
  std::vector<DType> types(3, dtype), outputs(gradient ? 3 : 1, dtype);
  if (gradient) types.insert(types.end(), {dtype, f32, dtype});
  if (padded) types.push_back(DType::kI32);
  if (!gradient) outputs.push_back(f32);
  types.insert(types.end(), outputs.begin(), outputs.end());
  RETURN_IF_ERROR(RequireTypes(spec, types));
  if (dtype != f32 && dtype != DType::kBF16) return NoKernel(spec);
  ASSIGN_OR_RETURN(const AttentionAttributes attributes,
                   ParseAttributes<AttentionAttributes>(spec.attributes));
  if (attributes.library_draws) {
    return absl::UnimplementedError("library_draws: expected draws of ours on a CPU, got a card's");
  }
  const Shape& q = spec.inputs[0].local;
  const int64_t count = q[0] * q[2];
  return Heads{{q[1], q[3], q[2] * q[3], q[2], static_cast<float>(attributes.scale), !padded, q[1]},
               q[0],
               q[2],
               count,
               std::min<int64_t>(spec.threads, count),
               padded ? static_cast<int>(spec.inputs.size()) - 1 : -1,
               DroppedWeights(attributes, spec.inputs[0])};
}

// OutOfRange names the sample whose length is none.
absl::Status CheckLengths(const Heads& heads, const Operands& at) {
  if (heads.lengths < 0) return absl::OkStatus();
  const int32_t* lengths = at.at<int32_t>(heads.lengths);
  for (int64_t b = 0; b < heads.batch; ++b) {
    if (lengths[b] >= 0 && lengths[b] <= heads.head.time) continue;
    return absl::OutOfRangeError(absl::StrCat("padded_attention: expected lengths in [0, ",
                                              heads.head.time, "], got ", lengths[b], " in sample ",
                                              b));
  }
  return absl::OkStatus();
}

// One head of a call. Operands are of T, but for log-sum-exps.
template <typename T>
struct HeadCall {
  const Operands& at;
  AttentionHead head;
  int64_t first, first_statistic;
  float* scratch;
  T* operator()(int operand) const { return at.at<T>(operand) + first; }
  float* Statistics(int operand) const { return at.at(operand) + first_statistic; }
};

// fn(HeadCall) for every head; each piece has `floats` of scratch.
template <typename T, typename F>
absl::Status ForEachHead(const KernelContext& context, const Heads& heads, const Operands& at,
                         int64_t floats, F&& fn) {
  RETURN_IF_ERROR(CheckLengths(heads, at));
  const int32_t* const lengths = heads.lengths < 0 ? nullptr : at.at<int32_t>(heads.lengths);
  const WeightDropout of_first = heads.DropoutOfFirst(context);
  ForEachPiece(context, heads.pieces, [&](int64_t p) {
    const Range range = Cut({0, heads.count}, heads.pieces, p);
    for (int64_t i = range.begin; i < range.end; ++i) {
      AttentionHead head = heads.head;
      if (lengths != nullptr) head.length = lengths[i / heads.heads];
      head.dropout = heads.DropoutOf(i, of_first);
      fn(HeadCall<T>{at, head, heads.At(i), heads.StatisticAt(i),
                     at.scratch<float>() + p * floats});
    }
  });
  return absl::OkStatus();
}

// Floats of a piece, so that the next one's are aligned, too.
int64_t PieceFloats(int64_t floats) { return AlignedBytes(floats * 4) / 4; }

template <typename T>
PreparedKernel PrepareForward(const Heads& heads) {
  const int64_t floats = PieceFloats(Vectors().of<T>().attention.forward_scratch(heads.head));
  const int y = heads.lengths < 0 ? 3 : 4;
  return MakeKernel(
      [heads, floats, y](const KernelContext& context, const Operands& at) {
        return ForEachHead<T>(context, heads, at, floats, [&](const HeadCall<T>& of) {
          Vectors().of<T>().attention.forward(of.head, of(0), of(1), of(2), of(y),
                                              of.Statistics(y + 1), of.scratch);
        });
      },
      heads.pieces * floats * 4);
}

template <typename T>
PreparedKernel PrepareBackward(const Heads& heads) {
  const int64_t floats = PieceFloats(Vectors().of<T>().attention.backward_scratch(heads.head));
  const int dq = heads.lengths < 0 ? 6 : 7;
  return MakeKernel(
      [heads, floats, dq](const KernelContext& context, const Operands& at) {
        return ForEachHead<T>(context, heads, at, floats, [&](const HeadCall<T>& of) {
          Vectors().of<T>().attention.backward(of.head, of(0), of(1), of(2), of(3),
                                               of.Statistics(4), of(5), of(dq), of(dq + 1),
                                               of(dq + 2), of.scratch);
        });
      },
      heads.pieces * floats * 4);
}

PreparedKernel Prepare(const KernelSpec& spec, bool gradient, bool padded) {
  ASSIGN_OR_RETURN(const Heads heads, HeadsOf(spec, gradient, padded));
  if (spec.inputs[0].dtype == DType::kBF16) {
    return gradient ? PrepareBackward<BFloat16>(heads) : PrepareForward<BFloat16>(heads);
  }
  return gradient ? PrepareBackward<float>(heads) : PrepareForward<float>(heads);
}

}  // namespace

PreparedKernel PrepareAttention(const KernelSpec& spec) {
  return Prepare(spec, /*gradient=*/false, /*padded=*/false);
}

PreparedKernel PrepareAttentionGradient(const KernelSpec& spec) {
  return Prepare(spec, /*gradient=*/true, /*padded=*/false);
}

PreparedKernel PreparePaddedAttention(const KernelSpec& spec) {
  return Prepare(spec, /*gradient=*/false, /*padded=*/true);
}

PreparedKernel PreparePaddedAttentionGradient(const KernelSpec& spec) {
  return Prepare(spec, /*gradient=*/true, /*padded=*/true);
}

}  // namespace sluice::cpu
