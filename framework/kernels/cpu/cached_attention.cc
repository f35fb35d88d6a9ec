// Attention of new rows over cached keys and values, and what keeps those: threads take heads.
#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "framework/kernels/cpu/all_kernels.h"
#include "framework/kernels/cpu/vector.h"

namespace sluice::cpu {
namespace {

// Rows that join a cache: [batch, rows, heads, size] beside [batch, time, heads, size].
struct Joined {
  int64_t batch, rows, time, heads, size;
  int64_t row() const { return heads * size; }
};

Joined JoinedOf(const KernelSpec& spec, int rows, int cache) {
  const Shape& shape = spec.inputs[rows].local;
  return {shape[0], shape[1], spec.inputs[cache].local[1], shape[2], shape[3]};
}

// OutOfRange names the sample whose rows do not fit behind its position.
absl::Status CheckPositions(const char* op, const Joined& joined, const int32_t* position) {
  for (int64_t b = 0; b < joined.batch; ++b) {
    if (position[b] >= 0 && position[b] <= joined.time - joined.rows) continue;
    return absl::OutOfRangeError(absl::StrCat(op, ": expected a position in [0, ",
                                              joined.time - joined.rows, "], got ", position[b],
                                              " in sample ", b));
  }
  return absl::OkStatus();
}

}  // namespace

PreparedKernel PrepareCachedAttention(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32(spec, {5}));
  ASSIGN_OR_RETURN(const AttentionAttributes attributes,
                   ParseAttributes<AttentionAttributes>(spec.attributes));
  const Joined joined = JoinedOf(spec, 0, 3);
  const AttentionHead head = {joined.rows,
                              joined.size,
                              joined.row(),
                              joined.heads,
                              static_cast<float>(attributes.scale),
                              /*causal=*/true,
                              joined.rows};
  const int64_t heads = joined.batch * joined.heads;
  const int64_t work = heads * joined.rows * joined.time * joined.size;
  const int64_t pieces =
      std::max<int64_t>(1, std::min({int64_t{spec.threads}, heads, work / kCostlyGrain}));
  const int64_t piece_bytes = AlignedBytes(joined.time * 4);
  return MakeKernel(
      [=](const KernelContext& context, const Operands& at) {
        const int32_t* const position = at.at<int32_t>(5);
        RETURN_IF_ERROR(CheckPositions("cached_attention", joined, position));
        ForEachPiece(context, pieces, [&](int64_t p) {
          const Range range = Cut({0, heads}, pieces, p);
          for (int64_t i = range.begin; i < range.end; ++i) {
            const int64_t b = i / joined.heads, h = i % joined.heads * joined.size;
            const int64_t at_new = b * joined.rows * joined.row() + h;
            const int64_t at_old = b * joined.time * joined.row() + h;
            Vectors().cached_attention.forward(
                head, joined.rows, position[b], at.at(0) + at_new, at.at(1) + at_new,
                at.at(2) + at_new, at.at(3) + at_old, at.at(4) + at_old, at.at(6) + at_new,
                at.scratch<float>() + p * piece_bytes / 4);
          }
        });
        return absl::OkStatus();
      },
      pieces * piece_bytes);
}

PreparedKernel PrepareWriteRows(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32(spec, {2}));
  const Joined joined = JoinedOf(spec, 1, 0);
  return MakeKernel([=](const KernelContext&, const Operands& at) {
    const int32_t* const position = at.at<int32_t>(2);
    RETURN_IF_ERROR(CheckPositions("write_rows", joined, position));
    if (joined.rows * joined.row() == 0) return absl::OkStatus();  // a shard without heads
    for (int64_t b = 0; b < joined.batch; ++b) {
      float* const to = at.at(0) + (b * joined.time + position[b]) * joined.row();
      std::memcpy(to, at.at(1) + b * joined.rows * joined.row(),
                  joined.rows * joined.row() * sizeof(float));
    }
    return absl::OkStatus();
  });
}

}  // namespace sluice::cpu
