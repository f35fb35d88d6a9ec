// The gradients of attention: those of queries, a block some query rows, and
// those of keys and values, a block some keys. Weights are computed again from
// scores and log-sum-exps.
//
// The slopes of a row's scores sum to zero. dy times y sees to that but for its
// rounding, which all keys have in common and which would swamp small slopes:
// as on the CPU their mean is taken off once more, for which query rows look at
// all keys twice.
//
// What forward has dropped is drawn again, a tile at a time. The slope of a
// weight that was dropped is zero, and one that was kept has the same factor.
#include "framework/kernels/cuda/all_kernels.h"
#include "framework/kernels/cuda/attention_draws.h"
#include "framework/kernels/cuda/attention_padding.h"
#include "framework/kernels/cuda/attention_tiles.h"

namespace sluice::cuda {
namespace {

constexpr int kOfThread = 2;  // rows, or keys
constexpr int kSide = kOfThread * kTileSide;
constexpr int kTileFloats = kSide * kTileRow;
constexpr int kWeightRow = kSide + 1, kWeightFloats = kSide * kWeightRow;

// How many registers a thread may have follows from it: so many that none are
// spilled.
template <int chunks>
constexpr int kBlocksOfProcessor = chunks < kMostChunks ? 2 : 1;

// What is taken off the slopes of a query row.
struct Offsets {
  float partial, mean;
};

template <typename T>
struct GradientOperands {
  const T *q, *k, *v, *y;
  const float* logsumexp;
  const T* dy;
  const int32_t* lengths;
  T *dq, *dk, *dv;
  Offsets* offsets;  // of each log-sum-exp
};

// In shared memory.
struct Tiles {
  float *q, *dy, *k, *v, *slopes, *weights;
  __device__ Tiles() {
    q = SharedMemory<float>();
    dy = q + kTileFloats;
    k = dy + kTileFloats;
    v = k + kTileFloats;
    slopes = v + kTileFloats;
    weights = slopes + kWeightFloats;
  }
};
constexpr size_t kSharedBytes = (4 * kTileFloats + 2 * kWeightFloats) * sizeof(float);

// Of the rows of a tile, those before `end`.
__device__ inline int RowsBefore(int64_t first, int64_t end) {
  return static_cast<int>(end - first < kSide ? end - first : kSide);
}

__device__ inline int ThreadRow() { return static_cast<int>(threadIdx.x) / kTileSide; }
__device__ inline int ThreadColumn() { return static_cast<int>(threadIdx.x) % kTileSide; }

// Of the sixteen threads that have a row, in each of them.
__device__ float SumOfRow(float value) {
  for (int distance = kTileSide / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(kAllLanes, value, distance);
  }
  return value;
}

// A thread's part of the products of some query rows and some keys.
struct Products {
  float scores[kOfThread][kOfThread] = {}, slopes[kOfThread][kOfThread] = {};
};

// Loads what is not there yet, which of a head of one chunk stays from tile to
// tile.
template <typename T>
__device__ void Multiply(const AttentionHead& head, const GradientOperands<T>& at,
                         const Tiles& tiles, int64_t first_row, bool has_rows, int64_t first_key,
                         bool has_keys, Products* products) {
  for (int64_t chunk = 0; chunk < head.chunks; ++chunk) {
    const int64_t column = chunk * kDepth;
    if (head.chunks > 1 || !has_rows) {
      LoadTile<kSide>(head, at.q, first_row, column, tiles.q);
      LoadTile<kSide>(head, at.dy, first_row, column, tiles.dy);
    }
    if (head.chunks > 1 || !has_keys) {
      LoadTile<kSide>(head, at.k, first_key, column, tiles.k);
      LoadTile<kSide>(head, at.v, first_key, column, tiles.v);
    }
    __syncthreads();
    MultiplyRows(tiles.q, tiles.k, DepthOf(head, chunk), products->scores);
    MultiplyRows(tiles.dy, tiles.v, DepthOf(head, chunk), products->slopes);
    __syncthreads();
  }
}

// Drops the slopes of weights that were dropped, whose factors lie in
// tiles.weights.
__device__ void DropSlopes(const AttentionHead& head, const Tiles& tiles, Products* products) {
  for (int r = 0; r < kOfThread; ++r) {
    const float* const row = tiles.weights + (ThreadRow() * kOfThread + r) * kWeightRow;
    for (int s = 0; s < kOfThread; ++s) {
      float* const slope = &products->slopes[r][s];
      *slope = KeptOf(head, row + ThreadColumn() + s * kTileSide, *slope);
    }
  }
}

// Of a score, 0 where the key is not seen.
__device__ inline float WeightOf(const AttentionHead& head, int64_t query, int64_t key, float score,
                                 float logsumexp) {
  return head.Sees(query, key) ? Exp(score * head.scale - logsumexp) : 0;
}

// The slope of a score, from that of its weight. Of a row of one key nothing is
// left.
__device__ inline float SlopeOf(const AttentionHead& head, int64_t query, float weight, float slope,
                                const Offsets& offsets) {
  if (weight == 0 || head.KeysOf(query) == 1) return 0;
  return (slope - offsets.partial - offsets.mean) * weight * head.scale;
}

// Adds to this thread's rows and columns: left(row, s) times row s of a tile,
// of which so many are there.
template <typename Left>
__device__ void AddProducts(const Left& left, const float* tile, int count,
                            float (&sum)[kOfThread][kColumns]) {
  const int y = ThreadRow(), x = ThreadColumn();
  for (int s = 0; s < count; ++s) {
    float row[kOfThread], column[kColumns];
    for (int r = 0; r < kOfThread; ++r) row[r] = left(y * kOfThread + r, s);
    for (int c = 0; c < kColumns; ++c) column[c] = tile[s * kTileRow + x + c * kTileSide];
    for (int r = 0; r < kOfThread; ++r) {
      for (int c = 0; c < kColumns; ++c) sum[r][c] = fmaf(row[r], column[c], sum[r][c]);
    }
  }
}

template <typename T, int chunks>
__device__ void StoreRows(const AttentionHead& head, int64_t first_row, int64_t first_chunk,
                          const float (&sums)[chunks][kOfThread][kColumns], T* to) {
  for (int r = 0; r < kOfThread; ++r) {
    const int64_t row = first_row + ThreadRow() * kOfThread + r;
    if (row >= head.time) continue;
    ForChunks<chunks>([&](auto chunk) {
      for (int c = 0; c < kColumns; ++c) {
        const int64_t column =
            (first_chunk + chunk.value) * kDepth + ThreadColumn() + c * kTileSide;
        if (column < head.size) Narrow(sums[chunk.value][r][c], to + head.At(row) + column);
      }
    });
  }
}

// What is taken off the slopes of this thread's rows, in each thread of a row;
// with `writes` written for the gradients of keys and values by one.
template <typename T>
__device__ void FindOffsets(const AttentionHead& head, const GradientOperands<T>& at,
                            const Tiles& tiles, int64_t first_row, int64_t seen, bool writes,
                            const float (&logsumexp)[kOfThread], Offsets (&offsets)[kOfThread]) {
  float sum[kOfThread] = {}, rest[kOfThread] = {};
  for (int r = 0; r < kOfThread; ++r) {
    const int64_t query = first_row + ThreadRow() * kOfThread + r;
    float partial = 0;
    for (int64_t c = ThreadColumn(); query < head.length && c < head.size; c += kTileSide) {
      partial = fmaf(Widen(at.dy[head.At(query) + c]), Widen(at.y[head.At(query) + c]), partial);
    }
    offsets[r].partial = SumOfRow(partial);
  }
  for (int64_t first_key = 0; first_key < seen; first_key += kSide) {
    DrawTile<kSide, kSide>(head, first_row, first_key, tiles.weights);
    Products products;
    Multiply(head, at, tiles, first_row, first_key > 0, first_key, false, &products);
    DropSlopes(head, tiles, &products);
    for (int r = 0; r < kOfThread; ++r) {
      const int64_t query = first_row + ThreadRow() * kOfThread + r;
      for (int s = 0; s < kOfThread; ++s) {
        const int64_t key = first_key + ThreadColumn() + s * kTileSide;
        const float weight = WeightOf(head, query, key, products.scores[r][s], logsumexp[r]);
        sum[r] = sum[r] + weight;
        rest[r] = rest[r] + weight * (products.slopes[r][s] - offsets[r].partial);
      }
    }
  }
  for (int r = 0; r < kOfThread; ++r) {
    const int64_t query = first_row + ThreadRow() * kOfThread + r;
    const float whole = SumOfRow(sum[r]);
    offsets[r].mean = SumOfRow(rest[r]) / whole;
    if (writes && query < head.time && ThreadColumn() == 0) {
      // Rows of padding have no slopes.
      at.offsets[head.StatisticAt(query)] = query < head.length ? offsets[r] : Offsets{0, 0};
    }
  }
}

// This thread's log-sum-exps.
template <typename T>
__device__ void LoadLogSumExps(const AttentionHead& head, const GradientOperands<T>& at,
                               int64_t first_row, float (&logsumexp)[kOfThread]) {
  for (int r = 0; r < kOfThread; ++r) {
    const int64_t query = first_row + ThreadRow() * kOfThread + r;
    logsumexp[r] = query < head.length ? at.logsumexp[head.StatisticAt(query)] : 0;
  }
}
// Of the keys of the last row of the tile that is there.
__device__ inline int64_t KeysOfTile(const AttentionHead& head, int64_t first_row) {
  const int64_t last = first_row + kSide < head.length ? first_row + kSide : head.length;
  return first_row < head.length ? head.KeysOf(last - 1) : 0;
}

template <typename T, int chunks>
__global__ void __launch_bounds__(kTileThreads, kBlocksOfProcessor<chunks>)
    QueryGradients(AttentionShape shape, GradientOperands<T> at, DeviceErrors errors) {
  const Tiles tiles;
  const AttentionBlock block(shape, kSide, chunks);
  const int64_t first_row = (block.tiles - 1 - block.tile) * kSide;
  const AttentionHead head(shape, block.pair, at.lengths, errors);
  const int64_t seen = KeysOfTile(head, first_row);
  float logsumexp[kOfThread];
  LoadLogSumExps(head, at, first_row, logsumexp);
  Offsets offsets[kOfThread];
  FindOffsets(head, at, tiles, first_row, seen, block.first_chunk == 0, logsumexp, offsets);
  float sums[chunks][kOfThread][kColumns] = {};
  for (int64_t first_key = 0; first_key < seen; first_key += kSide) {
    DrawTile<kSide, kSide>(head, first_row, first_key, tiles.weights);
    Products products;
    Multiply(head, at, tiles, first_row, true, first_key, false, &products);
    DropSlopes(head, tiles, &products);
    for (int r = 0; r < kOfThread; ++r) {
      const int row = ThreadRow() * kOfThread + r;
      for (int s = 0; s < kOfThread; ++s) {
        const int key = ThreadColumn() + s * kTileSide;
        const float weight =
            WeightOf(head, first_row + row, first_key + key, products.scores[r][s], logsumexp[r]);
        tiles.slopes[row * kWeightRow + key] =
            SlopeOf(head, first_row + row, weight, products.slopes[r][s], offsets[r]);
      }
    }
    ForChunks<chunks>([&](auto chunk) {
      if (head.chunks > 1) {
        LoadTile<kSide>(head, at.k, first_key, (block.first_chunk + chunk.value) * kDepth, tiles.k);
      }
      __syncthreads();
      AddProducts([&](int row, int key) { return tiles.slopes[row * kWeightRow + key]; }, tiles.k,
                  RowsBefore(first_key, seen), sums[chunk.value]);
      __syncthreads();
    });
  }
  StoreRows(head, first_row, block.first_chunk, sums, at.dq);
}

template <typename T, int chunks>
__global__ void __launch_bounds__(kTileThreads, kBlocksOfProcessor<chunks>)
    KeyGradients(AttentionShape shape, GradientOperands<T> at, DeviceErrors errors) {
  const Tiles tiles;
  const AttentionBlock block(shape, kSide, chunks);
  const int64_t first_key = block.tile * kSide;
  const AttentionHead head(shape, block.pair, at.lengths, errors);
  const int64_t begin = head.causal ? first_key : 0;
  float key_sums[chunks][kOfThread][kColumns] = {}, value_sums[chunks][kOfThread][kColumns] = {};
  for (int64_t first_row = begin; first_row < head.length; first_row += kSide) {
    DrawTile<kSide, kSide>(head, first_row, first_key, tiles.weights);
    Products products;
    Multiply(head, at, tiles, first_row, false, first_key, first_row > begin, &products);
    for (int r = 0; r < kOfThread; ++r) {
      const int row = ThreadRow() * kOfThread + r;
      const bool held = first_row + row < head.length;
      const int64_t statistic = head.StatisticAt(first_row + row);
      const float logsumexp = held ? at.logsumexp[statistic] : 0;
      const Offsets offsets = held ? at.offsets[statistic] : Offsets{0, 0};
      for (int s = 0; s < kOfThread; ++s) {
        const int key = ThreadColumn() + s * kTileSide;
        const float weight =
            WeightOf(head, first_row + row, first_key + key, products.scores[r][s], logsumexp);
        float* const factor = tiles.weights + row * kWeightRow + key;
        const float kept_slope = KeptOf(head, factor, products.slopes[r][s]);
        tiles.slopes[row * kWeightRow + key] =
            SlopeOf(head, first_row + row, weight, kept_slope, offsets);
        *factor = KeptOf(head, factor, weight);
      }
    }
    ForChunks<chunks>([&](auto chunk) {
      if (head.chunks > 1) {
        const int64_t column = (block.first_chunk + chunk.value) * kDepth;
        LoadTile<kSide>(head, at.q, first_row, column, tiles.q);
        LoadTile<kSide>(head, at.dy, first_row, column, tiles.dy);
      }
      __syncthreads();
      AddProducts([&](int key, int row) { return tiles.weights[row * kWeightRow + key]; }, tiles.dy,
                  RowsBefore(first_row, head.length), value_sums[chunk.value]);
      AddProducts([&](int key, int row) { return tiles.slopes[row * kWeightRow + key]; }, tiles.q,
                  RowsBefore(first_row, head.length), key_sums[chunk.value]);
      __syncthreads();
    });
  }
  StoreRows(head, first_key, block.first_chunk, key_sums, at.dk);
  StoreRows(head, first_key, block.first_chunk, value_sums, at.dv);
}

// The offsets alone, for all query rows.
__global__ void __launch_bounds__(kTileThreads, 2)
    SlopeOffsets(AttentionShape shape, GradientOperands<uint16_t> at, int chunks,
                 DeviceErrors errors) {
  const Tiles tiles;
  const AttentionBlock block(shape, kSide, chunks);
  const int64_t first_row = (block.tiles - 1 - block.tile) * kSide;
  const AttentionHead head(shape, block.pair, at.lengths, errors);
  float logsumexp[kOfThread];
  LoadLogSumExps(head, at, first_row, logsumexp);
  Offsets offsets[kOfThread];
  FindOffsets(head, at, tiles, first_row, KeysOfTile(head, first_row), true, logsumexp, offsets);
}

// The column of the largest of a row's elements but for two columns, in all lanes.
__device__ int64_t LargestColumn(const uint16_t* row, int64_t size, int64_t but, int64_t nor) {
  float largest = -1;
  int64_t column = 0;
  for (int64_t c = Lane(); c < size; c += kWarp) {
    const float value = fabsf(Widen(row[c]));
    if (c != but && c != nor && value > largest) largest = value, column = c;
  }
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    const float other = __shfl_xor_sync(kAllLanes, largest, distance);
    const int64_t of_other = __shfl_xor_sync(kAllLanes, column, distance);
    if (other > largest || (other == largest && of_other < column)) {
      largest = other, column = of_other;
    }
  }
  return column;
}

// A warp a row: bf16 elements whose product with dy's row is `factor` times what is to be taken off
// its slopes. They stand where dy is largest, each for what is left by those before, so three of
// eight bits have all of an f32; the others are zero.
__global__ void __launch_bounds__(kRowThreads)
    SlopesAsProducts(Rows rows, float factor, const uint16_t* dy, const Offsets* offsets,
                     uint16_t* y) {
  const WarpRow row;
  if (row.index() >= rows.count) return;
  dy += row.index() * rows.length, y += row.index() * rows.length;
  float left = factor * (offsets[row.index()].partial + offsets[row.index()].mean);
  int64_t column[3] = {-1, -1, -1};
  float element[3];
  for (int d = 0; d < 3; ++d) {
    column[d] = LargestColumn(dy, rows.length, column[0], column[1]);
    const float slope = Widen(dy[column[d]]), wanted = Rounded<uint16_t>(left / slope);
    // Of a slope of nothing there is no product.
    element[d] = fabsf(wanted) < 1e30f ? wanted : 0;
    left = fmaf(-element[d], slope, left);
  }
  for (int64_t c = Lane(); c < rows.length; c += kWarp) {
    float value = 0;
    for (int d = 0; d < 3; ++d) value = c == column[d] ? element[d] : value;
    Narrow(value, y + c);
  }
}

PreparedKernel PrepareGradient(const KernelSpec& spec, bool padded) {
  ASSIGN_OR_RETURN(const AttentionPlan plan, PlanAttention(spec, /*gradient=*/true, padded));
  const AttentionShape shape = plan.shape;
  const int dq = padded ? 7 : 6;
  const int64_t scratch = shape.statistics() * static_cast<int64_t>(sizeof(Offsets));
  return OfFloat(spec, spec.inputs[0].dtype, [&]<typename T>(T) {
    return OfChunks(shape.chunks(), [&]<int chunks>(std::integral_constant<int, chunks>) {
      const Grid grid = AttentionBlock::GridOf(shape, kSide, chunks, kSharedBytes);
      return MakeKernel(
          [=](const KernelContext& context, const Operands& at) -> absl::Status {
            if (shape.statistics() == 0) return absl::OkStatus();
            const GradientOperands<T> operands = {
                at.at<T>(0),      at.at<T>(1),      at.at<T>(2),          at.at<T>(3),
                at.at(4),         at.at<T>(5),      plan.LengthsOf(at),   at.at<T>(dq),
                at.at<T>(dq + 1), at.at<T>(dq + 2), at.scratch<Offsets>()};
            const DeviceErrors errors = StreamOf(context).errors();
            const AttentionShape of = plan.At(context);
            RETURN_IF_ERROR(Launch(context, QueryGradients<T, chunks>, grid, of, operands, errors));
            return Launch(context, KeyGradients<T, chunks>, grid, of, operands, errors);
          },
          scratch);
    });
  });
}

// By cuDNN, which takes the product of dy and y off a row's slopes. That leaves what the rounding
// of y does, which all keys of a row have in common, as it does in every framework whose y is bf16;
// finding it in f32 first, as kernels of ours do, took 24 of the 66 ms of a step of GPT-2 124M on
// an H200.
//
// With a mask of ours cuDNN forgets to take off the product times the share of weights that are
// kept, whatever number the graph has there: the same bytes come out (9.14, H200). It cannot be had
// in y without rounding that once more. So there what is to be taken off is found in f32, and cuDNN
// gets in the place of y what gives it as a product.
PreparedKernel PrepareByCudnn(const AttentionPlan& plan, int64_t most_scratch) {
  const AttentionShape& s = plan.shape;
  ScratchLayout layout;
  const auto reserve = [&](int64_t bytes) { return layout.Reserve((bytes + 255) / 256 * 256); };
  const bool finds = plan.dropped.drops && !plan.LibraryDraws();
  const float keep = 1 / plan.dropped.scale;
  const int64_t n = s.statistics(), offsets = reserve(finds ? n * 8 : 0);
  const int64_t logsumexp = reserve(n * 4), slopes = reserve(n * 4);
  const int64_t products = reserve(finds ? n * s.size * 2 : 0);
  const int64_t behind = layout.bytes();
  ASSIGN_OR_RETURN(const AttentionParts parts,
                   AttentionPartsOf(AttentionPass::kGradient, plan, most_scratch - behind));
  const int chunks = static_cast<int>(s.chunks()), dq = plan.IsPadded() ? 7 : 6;
  return MakeKernel(
      [=](const KernelContext& context, const Operands& at) -> absl::Status {
        auto* const scratch = at.scratch<std::byte>();
        auto* const found = reinterpret_cast<Offsets*>(scratch + offsets);
        auto* const y = reinterpret_cast<uint16_t*>(scratch + products);
        const AttentionShape of_firing = plan.At(context);
        GradientOperands<uint16_t> operands = {};
        operands.q = at.at<uint16_t>(0), operands.k = at.at<uint16_t>(1);
        operands.v = at.at<uint16_t>(2), operands.y = at.at<uint16_t>(3);
        operands.logsumexp = at.at(4), operands.dy = at.at<uint16_t>(5);
        operands.lengths = plan.LengthsOf(at), operands.offsets = found;
        if (finds) {
          RETURN_IF_ERROR(Launch(context, SlopeOffsets,
                                 AttentionBlock::GridOf(s, kSide, chunks, kSharedBytes), of_firing,
                                 operands, chunks, StreamOf(context).errors()));
          RETURN_IF_ERROR(Launch(context, SlopesAsProducts, WarpRow::GridOf(n),
                                 Rows{n, s.size, false}, keep, operands.dy, found, y));
        }
        RETURN_IF_ERROR(GiveLogSumExps(context, s, operands.lengths, at.at(4),
                                       reinterpret_cast<float*>(scratch + logsumexp)));
        return parts.ForEach(
            context, of_firing, operands.lengths, scratch + behind,
            [&](int64_t sample, int64_t head, CudnnAttention::Operands* of) {
              const int64_t row = (sample * s.heads + head) * s.time * 4;
              const int64_t first = (sample * s.time * s.heads + head) * s.size * 2;
              of->q = at.bytes(0) + first, of->k = at.bytes(1) + first;
              of->v = at.bytes(2) + first;
              of->y = (finds ? scratch + products : at.bytes(3)) + first;
              of->logsumexp = scratch + logsumexp + row, of->slopes = scratch + slopes + row;
              of->dy = at.bytes(5) + first, of->dq = at.bytes(dq) + first;
              of->dk = at.bytes(dq + 1) + first, of->dv = at.bytes(dq + 2) + first;
            });
      },
      behind + parts.scratch());
}

PreparedKernel Prepare(const KernelSpec& spec, bool padded) {
  ASSIGN_OR_RETURN(const AttentionPlan plan, PlanAttention(spec, /*gradient=*/true, padded));
  return PrepareByEither(
      spec, plan, [&] { return PrepareByCudnn(plan, spec.most_scratch); },
      [&] { return PrepareGradient(spec, padded); });
}

}  // namespace

PreparedKernel PrepareAttentionGradient(const KernelSpec& spec) {
  return Prepare(spec, /*padded=*/false);
}

PreparedKernel PreparePaddedAttentionGradient(const KernelSpec& spec) {
  return Prepare(spec, /*padded=*/true);
}

}  // namespace sluice::cuda
