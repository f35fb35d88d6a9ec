// Attention of new rows over cached keys and values, and what keeps those. Up to kTileKeys keys it
// has the bits of the CPU.
#include "framework/kernels/cuda/all_kernels.h"
#include "framework/kernels/cuda/block.h"
#include "framework/kernels/cuda/set_error.h"

namespace sluice::cuda {
namespace {

// Keys whose weights lie in shared memory at a time.
constexpr int64_t kTileKeys = 4096;

// Rows that join a cache: [batch, rows, heads, size] beside [batch, time, heads, size].
struct Joined {
  int64_t batch, rows, time, heads, size;

  static Joined Of(const KernelSpec& spec, int rows, int cache) {
    const Shape& shape = spec.inputs[rows].local;
    return {shape[0], shape[1], spec.inputs[cache].local[1], shape[2], shape[3]};
  }
  // Where the rows of a sample begin in the cache. One that they do not fit behind is told of.
  __device__ int64_t PositionOf(const int32_t* positions, int64_t sample, bool tells,
                                DeviceErrors errors) const {
    const int64_t position = positions[sample];
    if (position >= 0 && position <= time - rows) return position;
    if (tells) SetError(errors, DeviceErrorKind::kPosition, position, time - rows + 1, sample);
    return -1;
  }
};

struct CachedOperands {
  const float *q, *k, *v, *keys, *values;
  const int32_t* positions;
  float* y;
};

// One head of one query row: its own keys and values stand behind so many cached ones.
struct QueryRow {
  const float *query, *new_keys, *new_values, *keys, *values;
  int64_t cached, row, size;

  __device__ const float* KeyAt(int64_t s) const {
    return s < cached ? keys + s * row : new_keys + (s - cached) * row;
  }
  __device__ const float* ValueAt(int64_t s) const {
    return s < cached ? values + s * row : new_values + (s - cached) * row;
  }
};

// Scaled scores of the keys [begin, end): a warp a key.
__device__ void ScoreKeys(const QueryRow& at, int64_t begin, int64_t end, float scale,
                          float* scores) {
  for (int64_t s = begin + WarpOfBlock(); s < end; s += WarpsOfBlock()) {
    const float* const key = at.KeyAt(s);
    LaneFold<SumFold> fold;
    fold.Add(0, static_cast<int>(at.size), [&](int i) { return at.query[i] * key[i]; });
    const float score = fold.Result();
    if (Lane() == 0) scores[s - begin] = score * scale;
  }
}

// A block takes a head of a new row, and of a larger head so many columns as it has threads.
__global__ void __launch_bounds__(kRowThreads)
    AttendCached(Joined joined, CachedOperands at, float scale, DeviceErrors errors) {
  constexpr int kWidth = kPack<float>;
  const BlockRow block;
  float* const weights = SharedMemory<float>() + BlockRow::kSharedFloats;
  const int64_t parts = (joined.size + kRowThreads - 1) / kRowThreads;
  const int64_t part = block.index() % parts, head = block.index() / parts % joined.heads;
  const int64_t r = block.index() / parts / joined.heads % joined.rows;
  const int64_t sample = block.index() / parts / joined.heads / joined.rows;
  const int64_t row = joined.heads * joined.size;
  const int64_t first_new = sample * joined.rows * row + head * joined.size;
  const int64_t first_old = sample * joined.time * row + head * joined.size;
  const bool tells = part == 0 && head == 0 && r == 0 && threadIdx.x == 0;
  const int64_t position = joined.PositionOf(at.positions, sample, tells, errors);
  const QueryRow query = {at.q + first_new + r * row,
                          at.k + first_new,
                          at.v + first_new,
                          at.keys + first_old,
                          at.values + first_old,
                          position < 0 ? 0 : position,
                          row,
                          joined.size};
  const int64_t n = query.cached + r + 1;
  const int64_t column = part * kRowThreads + threadIdx.x;
  float max = -__builtin_inff(), sum = 0, total = 0;
  for (int64_t begin = 0; begin < n; begin += kTileKeys) {
    const int64_t count = n - begin < kTileKeys ? n - begin : kTileKeys;
    const Rows keys = {1, count, /*in_packs=*/false};  // whose weights are in shared memory
    ScoreKeys(query, begin, begin + count, scale, weights);
    __syncthreads();
    const float top = Max(max, block.Folded<MaxFold, kWidth>(
                                   keys, [&](int64_t i, auto& term) { Load(weights + i, term); }));
    const float correction = Exp(max - top);
    sum = sum * correction + block.Sum<kWidth>(keys, [&](int64_t i, auto& term) {
      Load(weights + i, term);
      for (float& e : term) e = Exp(e - top);
      Store(term, weights + i);
    });
    max = top;
    total *= correction;
    for (int64_t i = 0; i < count && column < joined.size; ++i) {
      total = fmaf(weights[i], query.ValueAt(begin + i)[column], total);
    }
    __syncthreads();
  }
  if (column < joined.size) at.y[first_new + r * row + column] = total * (1 / sum);
}

__global__ void __launch_bounds__(256)
    CopyIntoCache(Joined joined, float* cache, const float* rows, const int32_t* positions,
                  int64_t n, DeviceErrors errors) {
  const int64_t i = ThreadIndex(), row = joined.heads * joined.size;
  if (i >= n) return;
  const int64_t of_sample = joined.rows * row, sample = i / of_sample, at = i % of_sample;
  const int64_t position = joined.PositionOf(positions, sample, at == 0, errors);
  if (position >= 0) cache[(sample * joined.time + position) * row + at] = rows[i];
}

}  // namespace

PreparedKernel PrepareCachedAttention(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32(spec, {5}));
  ASSIGN_OR_RETURN(const AttentionAttributes attributes,
                   ParseAttributes<AttentionAttributes>(spec.attributes));
  const Joined joined = Joined::Of(spec, 0, 3);
  const float scale = static_cast<float>(attributes.scale);
  const int64_t parts = (joined.size + kRowThreads - 1) / kRowThreads;
  const int64_t blocks = joined.batch * joined.heads * joined.rows * parts;
  Grid grid = BlockRow::GridOf(blocks);
  grid.shared_bytes += std::min(std::max(joined.time, joined.rows), kTileKeys) * sizeof(float);
  return MakeKernel([=](const KernelContext& context, const Operands& at) -> absl::Status {
    if (blocks == 0) return absl::OkStatus();
    const CachedOperands operands = {at.at(0), at.at(1),          at.at(2), at.at(3),
                                     at.at(4), at.at<int32_t>(5), at.at(6)};
    return Launch(context, AttendCached, grid, joined, operands, scale, StreamOf(context).errors());
  });
}

PreparedKernel PrepareWriteRows(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32(spec, {2}));
  const Joined joined = Joined::Of(spec, 1, 0);
  const int64_t n = joined.batch * joined.rows * joined.heads * joined.size;
  return MakeKernel([joined, n](const KernelContext& context, const Operands& at) -> absl::Status {
    if (n == 0) return absl::OkStatus();
    return Launch(context, CopyIntoCache, GridOf(n), joined, at.at(0), at.at(1), at.at<int32_t>(2),
                  n, StreamOf(context).errors());
  });
}

}  // namespace sluice::cuda
