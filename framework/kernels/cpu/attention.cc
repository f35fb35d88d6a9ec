// Attention over [batch, time, heads, size], causal or padded: threads take heads.
#include "absl/strings/str_cat.h"
#include "framework/kernels/cpu/all_kernels.h"
#include "framework/kernels/cpu/vector.h"

namespace sluice::cpu {
namespace {

// The heads of a tensor [b,t,h,d], and the pieces that threads take.
struct Heads {
  AttentionHead head;
  int64_t batch, heads, count, pieces, piece_scratch;  // scratch in floats
  bool low;        // of bf16: heads are copied to f32, one behind the other from `copies` on
  int64_t copies;  // where in a piece's scratch
  int lengths;     // the operand that says how long each sample is; -1 of a causal op
  int64_t CopyFloats() const { return AlignedBytes(head.time * head.size * 4) / 4; }
  // The head as it lies in a copy: dense.
  AttentionHead CopiedHead() const {
    AttentionHead dense = head;
    dense.row = head.size;
    return dense;
  }
  // Where the i-th head's first element lies, and its first statistic in [b,t,h].
  int64_t At(int64_t i) const {
    return (i / heads) * head.time * head.row + (i % heads) * head.size;
  }
  int64_t StatisticAt(int64_t i) const { return (i / heads) * head.time * heads + i % heads; }
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
  const Shape& q = spec.inputs[0].local;
  Heads made;
  made.low = dtype == DType::kBF16;
  made.batch = q[0];
  made.heads = q[2];
  made.count = q[0] * q[2];
  made.head = {q[1], q[3], q[2] * q[3], q[2], static_cast<float>(attributes.scale), !padded, q[1]};
  made.lengths = padded ? static_cast<int>(spec.inputs.size()) - 1 : -1;
  made.pieces = std::min<int64_t>(spec.threads, made.count);
  const int64_t columns = (q[1] + 15) / 16 * 16;
  const int64_t rows = std::min(kAttentionRows, q[1]);
  const int64_t floats = gradient ? 2 * (q[3] + rows) * columns : (q[3] + rows) * columns;
  made.copies = AlignedBytes(floats * 4) / 4;
  const int64_t operands = made.low ? (gradient ? 8 : 4) : 0;
  made.piece_scratch = made.copies + operands * made.CopyFloats();
  return made;
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

// fn(head, scratch) for every head.
template <typename F>
absl::Status ForEachHead(const KernelContext& context, const Heads& heads, const Operands& at,
                         F&& fn) {
  RETURN_IF_ERROR(CheckLengths(heads, at));
  float* const scratch = at.scratch<float>();
  const auto piece = [&](int64_t p) {
    const Range range = Cut({0, heads.count}, heads.pieces, p);
    for (int64_t i = range.begin; i < range.end; ++i) fn(i, scratch + p * heads.piece_scratch);
  };
  ForEachPiece(context, heads.pieces, piece);
  return absl::OkStatus();
}

// The operands of one head as f32: where they lie, or, of bf16, copies. What is written to a copy
// goes back with Finish.
class HeadOperands {
 public:
  HeadOperands(const Heads& heads, const Operands& at, int64_t index, float* scratch)
      : heads_(heads),
        at_(at),
        first_(heads.At(index)),
        length_(heads.lengths < 0 ? heads.head.length
                                  : at.at<int32_t>(heads.lengths)[index / heads.heads]),
        next_(scratch + heads.copies) {}

  AttentionHead head() const {
    AttentionHead head = heads_.low ? heads_.CopiedHead() : heads_.head;
    head.length = length_;
    return head;
  }
  const float* Input(int operand) {
    if (!heads_.low) return at_.at(operand) + first_;
    float* const copy = Take();
    const BFloat16* const from = at_.at<BFloat16>(operand) + first_;
    const AttentionHead& head = heads_.head;
    for (int64_t t = 0; t < head.time; ++t) {
      Vectors().arithmetic.from_bf16(from + t * head.row, copy + t * head.size, head.size);
    }
    return copy;
  }
  float* Output(int operand) { return heads_.low ? Take() : at_.at(operand) + first_; }
  void Finish(const float* output, int operand) const {
    if (!heads_.low) return;
    BFloat16* const to = at_.at<BFloat16>(operand) + first_;
    const AttentionHead& head = heads_.head;
    for (int64_t t = 0; t < head.time; ++t) {
      Vectors().arithmetic.to_bf16(output + t * head.size, to + t * head.row, head.size);
    }
  }

 private:
  float* Take() {
    float* const taken = next_;
    next_ += heads_.CopyFloats();
    return taken;
  }

  const Heads& heads_;
  const Operands& at_;
  const int64_t first_, length_;
  float* next_;
};

PreparedKernel PrepareForward(const KernelSpec& spec, bool padded) {
  ASSIGN_OR_RETURN(const Heads heads, HeadsOf(spec, /*gradient=*/false, padded));
  const int y_at = padded ? 4 : 3;
  return MakeKernel(
      [heads, y_at](const KernelContext& context, const Operands& at) {
        return ForEachHead(context, heads, at, [&](int64_t i, float* scratch) {
          HeadOperands of(heads, at, i, scratch);
          const float *q = of.Input(0), *k = of.Input(1), *v = of.Input(2);
          float* const y = of.Output(y_at);
          Vectors().attention.forward(of.head(), q, k, v, y, at.at(y_at + 1) + heads.StatisticAt(i),
                                      scratch);
          of.Finish(y, y_at);
        });
      },
      heads.pieces * heads.piece_scratch * 4);
}

PreparedKernel PrepareGradient(const KernelSpec& spec, bool padded) {
  ASSIGN_OR_RETURN(const Heads heads, HeadsOf(spec, /*gradient=*/true, padded));
  const int dq_at = padded ? 7 : 6;
  return MakeKernel(
      [heads, dq_at](const KernelContext& context, const Operands& at) {
        return ForEachHead(context, heads, at, [&](int64_t i, float* scratch) {
          HeadOperands of(heads, at, i, scratch);
          const float *q = of.Input(0), *k = of.Input(1), *v = of.Input(2), *y = of.Input(3),
                      *dy = of.Input(5);
          float *const dq = of.Output(dq_at), *const dk = of.Output(dq_at + 1),
                       *const dv = of.Output(dq_at + 2);
          Vectors().attention.backward(of.head(), q, k, v, y, at.at(4) + heads.StatisticAt(i), dy,
                                       dq, dk, dv, scratch);
          of.Finish(dq, dq_at);
          of.Finish(dk, dq_at + 1);
          of.Finish(dv, dq_at + 2);
        });
      },
      heads.pieces * heads.piece_scratch * 4);
}

}  // namespace

PreparedKernel PrepareAttention(const KernelSpec& spec) {
  return PrepareForward(spec, /*padded=*/false);
}

PreparedKernel PrepareAttentionGradient(const KernelSpec& spec) {
  return PrepareGradient(spec, /*padded=*/false);
}

PreparedKernel PreparePaddedAttention(const KernelSpec& spec) {
  return PrepareForward(spec, /*padded=*/true);
}

PreparedKernel PreparePaddedAttentionGradient(const KernelSpec& spec) {
  return PrepareGradient(spec, /*padded=*/true);
}

}  // namespace sluice::cpu
