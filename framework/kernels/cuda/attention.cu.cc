// Attention, causal or padded, in one pass over keys: maxima and sums of the
// weights are brought up to date tile by tile.
#include "framework/kernels/cuda/all_kernels.h"
#include "framework/kernels/cuda/attention_draws.h"
#include "framework/kernels/cuda/attention_padding.h"
#include "framework/kernels/cuda/attention_tiles.h"

namespace sluice::cuda {
namespace {

constexpr int kRows = 4, kKeys = 2;  // of a thread
constexpr int kQueryTile = kRows * kTileSide, kKeyTile = kKeys * kTileSide;
constexpr int kWeightRow = kKeyTile + 1;

template <typename T>
struct ForwardOperands {
  const T *q, *k, *v;
  T* y;
  float* logsumexp;
  const int32_t* lengths;
};

// What a thread knows of its rows: the largest score so far, and the sum of the
// weights.
struct RowState {
  float max[kRows], sum[kRows];
};

// Of the sixteen threads that have a row, in each of them.
template <typename Fold>
__device__ float FoldRowOf(float value) {
  for (int distance = kTileSide / 2; distance > 0; distance /= 2) {
    value = Fold::Of(value, __shfl_xor_sync(kAllLanes, value, distance));
  }
  return value;
}

// Makes weights of scores, which go to shared memory, there dropped by what lies
// there of DrawTile, and brings the state up to date; what was weighed before is
// to be multiplied by `correction`.
__device__ void WeighTile(const AttentionHead& head, int64_t first_row, int64_t first_key,
                          const float (&scores)[kRows][kKeys], RowState* state, float* weights,
                          float (&correction)[kRows]) {
  const int y = static_cast<int>(threadIdx.x) / kTileSide;
  const int x = static_cast<int>(threadIdx.x) % kTileSide;
  for (int r = 0; r < kRows; ++r) {
    const int64_t query = first_row + y * kRows + r;
    float scaled[kKeys], top = -__builtin_inff();
    for (int s = 0; s < kKeys; ++s) {
      scaled[s] = scores[r][s] * head.scale;
      if (head.Sees(query, first_key + x + s * kTileSide)) top = Max(top, scaled[s]);
    }
    top = Max(state->max[r], FoldRowOf<MaxFold>(top));
    correction[r] = Exp(state->max[r] - top);
    float sum = 0;
    for (int s = 0; s < kKeys; ++s) {
      const bool seen = head.Sees(query, first_key + x + s * kTileSide);
      const float weight = seen ? Exp(scaled[s] - top) : 0;
      float* const to = weights + (y * kRows + r) * kWeightRow + x + s * kTileSide;
      *to = KeptOf(head, to, weight);
      sum = sum + weight;
    }
    state->sum[r] = state->sum[r] * correction[r] + FoldRowOf<SumFold>(sum);
    state->max[r] = top;
  }
}

// Adds the weighted rows of a tile of values to this thread's rows and columns.
__device__ void AddValues(const float* weights, const float* values, int keys,
                          float (&sum)[kRows][kColumns]) {
  const int y = static_cast<int>(threadIdx.x) / kTileSide;
  const int x = static_cast<int>(threadIdx.x) % kTileSide;
  for (int s = 0; s < keys; ++s) {
    float weight[kRows], value[kColumns];
    for (int r = 0; r < kRows; ++r) weight[r] = weights[(y * kRows + r) * kWeightRow + s];
    for (int c = 0; c < kColumns; ++c) value[c] = values[s * kTileRow + x + c * kTileSide];
    for (int r = 0; r < kRows; ++r) {
      for (int c = 0; c < kColumns; ++c) sum[r][c] = fmaf(weight[r], value[c], sum[r][c]);
    }
  }
}

template <typename T, int chunks>
__device__ void StoreRows(const AttentionHead& head, const ForwardOperands<T>& at,
                          int64_t first_row, int64_t first_chunk, const RowState& state,
                          const float (&sums)[chunks][kRows][kColumns]) {
  const int y = static_cast<int>(threadIdx.x) / kTileSide;
  const int x = static_cast<int>(threadIdx.x) % kTileSide;
  for (int r = 0; r < kRows; ++r) {
    const int64_t query = first_row + y * kRows + r;
    if (query >= head.time) continue;
    const bool held = query < head.length;
    const float inverse = 1 / state.sum[r];
    ForChunks<chunks>([&](auto chunk) {
      for (int c = 0; c < kColumns; ++c) {
        const int64_t column = (first_chunk + chunk.value) * kDepth + x + c * kTileSide;
        if (column >= head.size) continue;
        Narrow(held ? sums[chunk.value][r][c] * inverse : 0, at.y + head.At(query) + column);
      }
    });
    if (x == 0 && first_chunk == 0) {
      at.logsumexp[head.StatisticAt(query)] = held ? state.max[r] + Log(state.sum[r]) : 0;
    }
  }
}

// A block takes some query rows of a head. Those that see most keys come first.
template <typename T, int chunks>
__global__ void __launch_bounds__(kTileThreads)
    AttentionTiles(AttentionShape shape, ForwardOperands<T> at, DeviceErrors errors) {
  float* const queries = SharedMemory<float>();
  float* const keys = queries + kQueryTile * kTileRow;  // and then values
  float* const weights = keys + kKeyTile * kTileRow;
  const AttentionBlock block(shape, kQueryTile, chunks);
  const int64_t first_row = (block.tiles - 1 - block.tile) * kQueryTile;
  const AttentionHead head(shape, block.pair, at.lengths, errors);
  const int64_t last = first_row + kQueryTile < head.length ? first_row + kQueryTile : head.length;
  const int64_t seen = first_row < head.length ? head.KeysOf(last - 1) : 0;
  RowState state;
  float sums[chunks][kRows][kColumns] = {};
  for (int r = 0; r < kRows; ++r) state.max[r] = -__builtin_inff(), state.sum[r] = 0;
  for (int64_t first_key = 0; first_key < seen; first_key += kKeyTile) {
    DrawTile<kQueryTile, kKeyTile>(head, first_row, first_key, weights);
    float scores[kRows][kKeys] = {};
    for (int64_t chunk = 0; chunk < head.chunks; ++chunk) {
      if (head.chunks > 1 || first_key == 0) {
        LoadTile<kQueryTile>(head, at.q, first_row, chunk * kDepth, queries);
      }
      LoadTile<kKeyTile>(head, at.k, first_key, chunk * kDepth, keys);
      __syncthreads();
      MultiplyRows(queries, keys, DepthOf(head, chunk), scores);
      __syncthreads();
    }
    float correction[kRows];
    WeighTile(head, first_row, first_key, scores, &state, weights, correction);
    const int held = static_cast<int>(seen - first_key < kKeyTile ? seen - first_key : kKeyTile);
    ForChunks<chunks>([&](auto chunk) {
      for (int r = 0; r < kRows; ++r) {
        for (int c = 0; c < kColumns; ++c) sums[chunk.value][r][c] *= correction[r];
      }
      LoadTile<kKeyTile>(head, at.v, first_key, (block.first_chunk + chunk.value) * kDepth, keys);
      __syncthreads();
      AddValues(weights, keys, held, sums[chunk.value]);
      __syncthreads();
    });
  }
  StoreRows(head, at, first_row, block.first_chunk, state, sums);
}

PreparedKernel PrepareForward(const KernelSpec& spec, bool padded) {
  ASSIGN_OR_RETURN(const AttentionPlan plan, PlanAttention(spec, /*gradient=*/false, padded));
  const AttentionShape shape = plan.shape;
  const int y = padded ? 4 : 3;
  constexpr size_t kSharedBytes =
      ((kQueryTile + kKeyTile) * kTileRow + kQueryTile * kWeightRow) * sizeof(float);
  return OfFloat(spec, spec.inputs[0].dtype, [&]<typename T>(T) {
    return OfChunks(shape.chunks(), [&]<int chunks>(std::integral_constant<int, chunks>) {
      const Grid grid = AttentionBlock::GridOf(shape, kQueryTile, chunks, kSharedBytes);
      return MakeKernel([=](const KernelContext& context, const Operands& at) -> absl::Status {
        if (shape.statistics() == 0) return absl::OkStatus();
        const ForwardOperands<T> operands = {at.at<T>(0), at.at<T>(1),  at.at<T>(2),
                                             at.at<T>(y), at.at(y + 1), plan.LengthsOf(at)};
        return Launch(context, AttentionTiles<T, chunks>, grid, plan.At(context), operands,
                      StreamOf(context).errors());
      });
    });
  });
}

// cuDNN's log-sum-exps are [batch, heads, time]: in scratch, from where they are copied.
PreparedKernel PrepareByCudnn(const AttentionPlan& plan, int64_t most_scratch) {
  constexpr int64_t kAlignment = 256;  // of what lies behind
  const AttentionShape& s = plan.shape;
  const int64_t behind = (s.statistics() * 4 + kAlignment - 1) / kAlignment * kAlignment;
  ASSIGN_OR_RETURN(const AttentionParts parts,
                   AttentionPartsOf(AttentionPass::kForward, plan, most_scratch - behind));
  const int y = plan.IsPadded() ? 4 : 3;
  return MakeKernel(
      [=](const KernelContext& context, const Operands& at) -> absl::Status {
        auto* const scratch = at.scratch<std::byte>();
        const int32_t* const lengths = plan.LengthsOf(at);
        RETURN_IF_ERROR(
            parts.ForEach(context, plan.At(context), lengths, scratch + behind,
                          [&](int64_t sample, int64_t head, CudnnAttention::Operands* of) {
                            const int64_t first = (sample * s.time * s.heads + head) * s.size * 2;
                            of->q = at.bytes(0) + first, of->k = at.bytes(1) + first;
                            of->v = at.bytes(2) + first, of->y = at.bytes(y) + first;
                            of->logsumexp = scratch + (sample * s.heads + head) * s.time * 4;
                          }));
        return TakeLogSumExps(context, s, lengths, reinterpret_cast<const float*>(scratch),
                              at.at(y + 1), at.at<uint16_t>(y));
      },
      behind + parts.scratch());
}

PreparedKernel Prepare(const KernelSpec& spec, bool padded) {
  ASSIGN_OR_RETURN(const AttentionPlan plan, PlanAttention(spec, /*gradient=*/false, padded));
  return PrepareByEither(
      spec, plan, [&] { return PrepareByCudnn(plan, spec.most_scratch); },
      [&] { return PrepareForward(spec, padded); });
}

}  // namespace

PreparedKernel PrepareAttention(const KernelSpec& spec) { return Prepare(spec, /*padded=*/false); }

PreparedKernel PreparePaddedAttention(const KernelSpec& spec) {
  return Prepare(spec, /*padded=*/true);
}

}  // namespace sluice::cuda
