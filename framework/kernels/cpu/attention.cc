// Causal attention over [batch, time, heads, size]: threads take heads.
#include "framework/kernels/cpu/all_kernels.h"
#include "framework/kernels/cpu/vector.h"

namespace sluice::cpu {
namespace {

// The heads of a tensor [b,t,h,d], and the pieces that threads take.
struct Heads {
  AttentionHead head;
  int64_t heads, count, pieces, piece_scratch;  // scratch in floats
  // Where the i-th head's first element lies, and its first statistic in [b,t,h].
  int64_t At(int64_t i) const {
    return (i / heads) * head.time * head.row + (i % heads) * head.size;
  }
  int64_t StatisticAt(int64_t i) const { return (i / heads) * head.time * heads + i % heads; }
};

absl::StatusOr<Heads> HeadsOf(const KernelSpec& spec, bool gradient) {
  RETURN_IF_ERROR(RequireF32(spec));
  ASSIGN_OR_RETURN(const AttentionAttributes attributes,
                   ParseAttributes<AttentionAttributes>(spec.attributes));
  const Shape& q = spec.inputs[0].local;
  Heads made;
  made.heads = q[2];
  made.count = q[0] * q[2];
  made.head = {q[1], q[3], q[2] * q[3], q[2], static_cast<float>(attributes.scale)};
  made.pieces = std::min<int64_t>(spec.threads, made.count);
  const int64_t padded = (q[1] + 15) / 16 * 16;
  const int64_t rows = std::min(kAttentionRows, q[1]);
  const int64_t floats = gradient ? 2 * q[3] * padded + 2 * rows * padded : (q[3] + rows) * padded;
  made.piece_scratch = AlignedBytes(floats * 4) / 4;
  return made;
}

// fn(head, scratch) for every head.
template <typename F>
void ForEachHead(const KernelContext& context, const Heads& heads, float* scratch, F&& fn) {
  const auto piece = [&](int64_t p) {
    const Range range = Cut({0, heads.count}, heads.pieces, p);
    for (int64_t i = range.begin; i < range.end; ++i) fn(i, scratch + p * heads.piece_scratch);
  };
  if (ThreadPool* const pool = context.thread_pool(); heads.pieces > 1 && pool != nullptr) {
    pool->ForEach(heads.pieces, piece);
  } else {
    for (int64_t p = 0; p < heads.pieces; ++p) piece(p);
  }
}

}  // namespace

PreparedKernel PrepareAttention(const KernelSpec& spec) {
  ASSIGN_OR_RETURN(const Heads heads, HeadsOf(spec, /*gradient=*/false));
  return MakeKernel(
      [heads](const KernelContext& context, const Operands& at) {
        ForEachHead(context, heads, at.scratch<float>(), [&](int64_t i, float* scratch) {
          const int64_t first = heads.At(i);
          Vectors().attention.forward(heads.head, at.at(0) + first, at.at(1) + first,
                                      at.at(2) + first, at.at(3) + first,
                                      at.at(4) + heads.StatisticAt(i), scratch);
        });
      },
      heads.pieces * heads.piece_scratch * 4);
}

PreparedKernel PrepareAttentionGradient(const KernelSpec& spec) {
  ASSIGN_OR_RETURN(const Heads heads, HeadsOf(spec, /*gradient=*/true));
  return MakeKernel(
      [heads](const KernelContext& context, const Operands& at) {
        ForEachHead(context, heads, at.scratch<float>(), [&](int64_t i, float* scratch) {
          const int64_t first = heads.At(i);
          Vectors().attention.backward(
              heads.head, at.at(0) + first, at.at(1) + first, at.at(2) + first, at.at(3) + first,
              at.at(4) + heads.StatisticAt(i), at.at(5) + first, at.at(6) + first, at.at(7) + first,
              at.at(8) + first, scratch);
        });
      },
      heads.pieces * heads.piece_scratch * 4);
}

}  // namespace sluice::cpu
