// Tiles of attention's operands, [batch, time, heads, size]: some rows and some
// columns of one head in shared memory, as f32. For the files of this package
// only.
#ifndef SLUICE_FRAMEWORK_KERNELS_CUDA_ATTENTION_TILES_H_
#define SLUICE_FRAMEWORK_KERNELS_CUDA_ATTENTION_TILES_H_

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/kernels/cuda/block.h"
#include "framework/kernels/cuda/philox.h"
#include "framework/kernels/cuda/set_error.h"
#include "framework/kernels/dropped_weights.h"
#include "framework/kernels/prepared.h"

namespace sluice::cuda {

// Threads of a block, as a square: each takes a few rows and a few columns of
// every product.
constexpr int kTileSide = 16;
constexpr int kTileThreads = kTileSide * kTileSide;
// Columns of a head that lie in shared memory at a time, and a row of a tile:
// one word more, so that a column's words lie in banks apart.
constexpr int kDepth = 64, kTileRow = kDepth + 1;
constexpr int kColumns = kDepth / kTileSide;  // that a thread takes of a tile
// Chunks of so many columns whose sums a block has under way. Of larger heads
// several blocks take some chunks each, and each of them computes the scores.
constexpr int kMostChunks = 4;

// What of the weights is dropped, by the draws of their logical indices: those
// of the first head begin at `first`.
struct WeightDropout {
  bool drops;
  uint32_t threshold;
  float scale;
  Draw draw;
  int64_t first, of_sample, of_head;
};

struct AttentionShape {
  int64_t batch, time, heads, size;
  float scale;
  WeightDropout dropout = {};  // that of a firing (AttentionPlan::At)

  int64_t chunks() const { return (size + kDepth - 1) / kDepth; }
  int64_t statistics() const { return batch * time * heads; }
};

// What a block takes: a sample and a head, some of its rows, and so many chunks
// of its columns.
struct AttentionBlock {
  int64_t pair, tile, tiles, first_chunk;

  __device__ AttentionBlock(const AttentionShape& shape, int tile_rows, int chunks) {
    const int64_t pairs = shape.batch * shape.heads, index = blockIdx.x;
    tiles = (shape.time + tile_rows - 1) / tile_rows;
    pair = index % pairs;
    tile = index / pairs % tiles;
    first_chunk = index / pairs / tiles * chunks;
  }
  static Grid GridOf(const AttentionShape& shape, int tile_rows, int chunks, size_t shared_bytes) {
    const int64_t tiles = (shape.time + tile_rows - 1) / tile_rows;
    // Heads of no columns have log-sum-exps all the same.
    const int64_t parts = std::max<int64_t>(1, (shape.chunks() + chunks - 1) / chunks);
    const int64_t blocks = shape.batch * shape.heads * tiles * parts;
    return {dim3(static_cast<unsigned>(blocks)), dim3(kTileThreads), shared_bytes};
  }
};

// One head: where it begins, and how many rows of it hold something. Each of
// them sees the keys of all of them, or those up to its own.
struct AttentionHead {
  int64_t first, row, time, size, length, chunks;
  int64_t first_statistic, statistic;
  float scale;
  bool causal;
  const AttentionShape& shape;

  // The pair is a sample and a head. A length that none can be is told of.
  __device__ AttentionHead(const AttentionShape& shape, int64_t pair, const int32_t* lengths,
                           DeviceErrors errors)
      : row(shape.heads * shape.size),
        time(shape.time),
        size(shape.size),
        length(shape.time),
        chunks((shape.size + kDepth - 1) / kDepth),
        statistic(shape.heads),
        scale(shape.scale),
        causal(lengths == nullptr),
        shape(shape) {
    const int64_t sample = pair / shape.heads, head = pair % shape.heads;
    first = sample * time * row + head * size;
    first_statistic = sample * time * shape.heads + head;
    if (causal) return;
    length = lengths[sample];
    if (length >= 0 && length <= time) return;
    if (threadIdx.x == 0) SetError(errors, DeviceErrorKind::kLength, length, time + 1, sample);
    length = 0;
  }

  // Keys that a row below `length` sees.
  __device__ int64_t KeysOf(int64_t query) const { return causal ? query + 1 : length; }
  __device__ bool Sees(int64_t query, int64_t key) const {
    return query < length && key < KeysOf(query);
  }
  __device__ int64_t At(int64_t query) const { return first + query * row; }
  __device__ int64_t StatisticAt(int64_t query) const {
    return first_statistic + query * statistic;
  }
};

// Rows [begin, begin + kRows) and columns [column, column + kDepth) of a head
// into a tile, zeros where it has none.
template <int kRows, typename T>
__device__ void LoadTile(const AttentionHead& head, const T* from, int64_t begin, int64_t column,
                         float* tile) {
  const int64_t columns = head.size - column;
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kDepth; i += kTileThreads) {
    const int r = i / kDepth, c = i % kDepth;
    const bool held = begin + r < head.time && c < columns;
    tile[r * kTileRow + c] = held ? Widen(from[head.At(begin + r) + column + c]) : 0;
  }
}

// Adds the products of rows of `a` and of `b`, over a tile's columns, to those
// of this thread's rows of `a`, which follow each other, and of `b`, which lie
// kTileSide apart.
template <int kRows, int kKeys>
__device__ void MultiplyRows(const float* a, const float* b, int depth,
                             float (&sum)[kRows][kKeys]) {
  const int y = static_cast<int>(threadIdx.x) / kTileSide;
  const int x = static_cast<int>(threadIdx.x) % kTileSide;
  for (int k = 0; k < depth; ++k) {
    float left[kRows], right[kKeys];
    for (int r = 0; r < kRows; ++r) left[r] = a[(y * kRows + r) * kTileRow + k];
    for (int s = 0; s < kKeys; ++s) right[s] = b[(x + s * kTileSide) * kTileRow + k];
    for (int r = 0; r < kRows; ++r) {
      for (int s = 0; s < kKeys; ++s) sum[r][s] = fmaf(left[r], right[s], sum[r][s]);
    }
  }
}

// Of the weights of some rows and some keys, where weights are dropped, what
// each is to be multiplied by: 0 or what makes up for the others. `tile` is
// nobody's before and all threads' behind it.
template <int kRows, int kKeys>
__device__ void DrawTile(const AttentionHead& head, int64_t first_row, int64_t first_key,
                         float* tile) {
  constexpr int kBlocks = kKeys / 4 + 1;  // of four draws, that a row may touch
  const WeightDropout& dropout = head.shape.dropout;
  if (!dropout.drops) return;
  // Found anew for each tile: the head's own would take a register all along.
  const unsigned heads = static_cast<unsigned>(head.shape.heads);
  const unsigned pair = blockIdx.x % (static_cast<unsigned>(head.shape.batch) * heads);
  const int64_t first = dropout.first + pair / heads * dropout.of_sample +
                        pair % heads * dropout.of_head + first_row * head.shape.time + first_key;
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kBlocks; i += kTileThreads) {
    const int row = i / kBlocks;
    const int64_t index = first + row * head.shape.time;
    const int64_t block = index / 4 + i % kBlocks;
    const int key = static_cast<int>(block * 4 - index);  // of the first draw
    if (key >= kKeys) continue;
    const uint4 words = PhiloxWords(dropout.draw, block);
    const auto put = [&](int at, uint32_t word) {
      if (at < 0 || at >= kKeys) return;
      tile[row * (kKeys + 1) + at] = word >= dropout.threshold ? dropout.scale : 0;
    };
    put(key, words.x);
    put(key + 1, words.y);
    put(key + 2, words.z);
    put(key + 3, words.w);
  }
  __syncthreads();
}
// What is left of a number, whose factor lies there if weights are dropped.
__device__ inline float KeptOf(const AttentionHead& head, const float* factor, float value) {
  if (!head.shape.dropout.drops) return value;
  return *factor == 0 ? 0 : value * *factor;
}

// fn(Count<chunk>()) for each chunk: an array of chunks is to lie in registers,
// where no index but a constant reaches.
template <int chunks, typename Fn>
__device__ void ForChunks(const Fn& fn) {
  [&]<int... chunk>(std::integer_sequence<int, chunk...>) { (fn(Count<chunk>()), ...); }
  (std::make_integer_sequence<int, chunks>());
}

// Of a tile the columns that are the head's.
__device__ inline int DepthOf(const AttentionHead& head, int64_t chunk) {
  const int64_t left = head.size - chunk * kDepth;
  return left < kDepth ? static_cast<int>(left) : kDepth;
}

// The first of `lengths` operands and of what comes then; checks dtypes and the
// size of a head. `spec` is of attention or its gradient, padded or not.
struct AttentionPlan {
  AttentionShape shape;
  DroppedWeights dropped;
  bool library_draws;
  int lengths;  // the operand that says how long each sample is; -1 of a causal
                // op
  bool IsPadded() const { return lengths >= 0; }
  bool LibraryDraws() const { return library_draws && dropped.drops; }
  // The shape with what a firing drops.
  AttentionShape At(const KernelContext& context) const {
    AttentionShape of_firing = shape;
    of_firing.dropout = {dropped.drops,
                         dropped.threshold,
                         dropped.scale,
                         DrawOf(context, dropped.key),
                         dropped.first + context.micro * dropped.of_micro,
                         dropped.of_sample,
                         dropped.of_head};
    return of_firing;
  }
  const int32_t* LengthsOf(const Operands& at) const {
    return IsPadded() ? at.at<int32_t>(lengths) : nullptr;
  }
};

inline absl::StatusOr<AttentionPlan> PlanAttention(const KernelSpec& spec, bool gradient,
                                                   bool padded) {
  const DType dtype = spec.inputs[0].dtype, f32 = DType::kF32;
  std::vector<DType> types(3, dtype), outputs(gradient ? 3 : 1, dtype);
  if (gradient) types.insert(types.end(), {dtype, f32, dtype});
  if (padded) types.push_back(DType::kI32);
  if (!gradient) outputs.push_back(f32);
  types.insert(types.end(), outputs.begin(), outputs.end());
  RETURN_IF_ERROR(RequireTypes(spec, types));
  ASSIGN_OR_RETURN(const AttentionAttributes attributes,
                   ParseAttributes<AttentionAttributes>(spec.attributes));
  const Shape& q = spec.inputs[0].local;
  return AttentionPlan{{q[0], q[1], q[2], q[3], static_cast<float>(attributes.scale)},
                       DroppedWeights(attributes, spec.inputs[0]),
                       attributes.library_draws,
                       padded ? static_cast<int>(spec.inputs.size()) - 1 : -1};
}

// make(integral_constant) of how many chunks a block takes.
template <typename F>
PreparedKernel OfChunks(int64_t chunks, F&& make) {
  if (chunks <= 1) return make(std::integral_constant<int, 1>());
  if (chunks == 2) return make(std::integral_constant<int, 2>());
  return make(std::integral_constant<int, kMostChunks>());
}

}  // namespace sluice::cuda

#endif  // SLUICE_FRAMEWORK_KERNELS_CUDA_ATTENTION_TILES_H_
