// Reductions over chosen dimensions, gradients that are summed as they are made, and the sum of
// squares. Those in f32 have the order and the bits of the CPU; sums of everything are in f64.
#include <array>
#include <cmath>
#include <vector>

#include "framework/kernels/calls.h"
#include "framework/kernels/cuda/all_kernels.h"
#include "framework/kernels/cuda/columns.h"
#include "framework/kernels/cuda/joined_calls.h"
#include "framework/kernels/reduced_shape.h"
#include "framework/tensor/row_blocks.h"

namespace sluice::cuda {
namespace {

// Everything in f64: each block sums a range of elements, whose cuts follow from n alone. Elements
// go one by one: which thread has an element is part of the order, and with packs it would depend
// on where the tensor begins.
constexpr int kSumThreads = 256;
constexpr int64_t kLeastOfBlock = 4096;

// Of one call: elements, and how many of them are a block's.
template <typename T>
struct SumOperands {
  const T* x;
  float* y;
  int64_t n, of_block;
};
template <typename T, int capacity>
struct SumTable {
  SumOperands<T> calls[capacity];
  BlocksOfCalls<capacity> blocks;
};
constexpr int kManyCalls = kTableBytes / (sizeof(SumOperands<float>) + sizeof(int32_t));

// `sums`: by block.
template <typename T, bool squares, int capacity>
__global__ void __launch_bounds__(kSumThreads)
    SumBlocks(SumTable<T, capacity> table, double* sums) {
  const int call = table.blocks.CallOf(blockIdx.x);
  const SumOperands<T>& at = table.calls[call];
  const int64_t begin = (int64_t{blockIdx.x} - table.blocks.first[call]) * at.of_block;
  const int64_t end = begin + at.of_block < at.n ? begin + at.of_block : at.n;
  const T* const x = at.x;
  double sum = 0;
  for (int64_t i = begin + threadIdx.x; i < end; i += kSumThreads) {
    const double value = Widen(x[i]);
    sum += squares ? value * value : value;
  }
  sum = SumOfBlock(sum);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

// A block for each call.
template <typename T, int capacity>
__global__ void __launch_bounds__(kSumThreads)
    AddBlocks(SumTable<T, capacity> table, const double* sums, double scale) {
  const int64_t begin = table.blocks.first[blockIdx.x], end = table.blocks.first[blockIdx.x + 1];
  double sum = 0;
  for (int64_t i = begin + threadIdx.x; i < end; i += kSumThreads) sum += sums[i];
  sum = SumOfBlock(sum);
  if (threadIdx.x == 0) *table.calls[blockIdx.x].y = static_cast<float>(scale * sum);
}

template <typename T, bool squares, int capacity>
absl::Status LaunchSums(const KernelContext& context, const SumTable<T, capacity>& table,
                        double scale, double* sums) {
  const size_t shared = kSumThreads * sizeof(double);
  const auto grid = [&](int64_t blocks) {
    return Grid{dim3(static_cast<unsigned>(blocks)), dim3(kSumThreads), shared};
  };
  if (table.blocks.all() > 0) {
    RETURN_IF_ERROR(
        Launch(context, SumBlocks<T, squares, capacity>, grid(table.blocks.all()), table, sums));
  }
  return Launch(context, AddBlocks<T, capacity>, grid(table.blocks.count), table, sums, scale);
}

struct SizedCall {
  CallPlace place;
  int64_t n, of_block, blocks;
};

template <typename T, bool squares, int capacity>
PreparedKernel SumCalls(const std::vector<SizedCall>& calls, double scale) {
  int64_t blocks = 1;
  for (const SizedCall& call : calls) blocks += call.blocks;
  return MakeKernel(
      [=](const KernelContext& context, const Operands& at) -> absl::Status {
        SumTable<T, capacity> table;
        table.blocks.Clear();
        for (const SizedCall& call : calls) {
          // The sums of a launch are read before those of the next are written.
          if (!table.blocks.Holds(call.blocks)) {
            RETURN_IF_ERROR((LaunchSums<T, squares>(context, table, scale, at.scratch<double>())));
            table.blocks.Clear();
          }
          table.calls[table.blocks.count] = {at.at<T>(call.place.operand(0)),
                                             at.at(call.place.operand(1)), call.n, call.of_block};
          table.blocks.Add(call.blocks);
        }
        return LaunchSums<T, squares>(context, table, scale, at.scratch<double>());
      },
      blocks * 8);
}

// `most_blocks`: that the op's bound has room for, of each call.
template <typename T, bool squares>
PreparedKernel ReduceAll(const KernelSpec& spec, double scale, int64_t most_blocks) {
  std::vector<SizedCall> calls;
  for (int c = 0; c < spec.calls; ++c) {
    const CallPlace place = PlaceOfCall(spec, c);
    const int64_t n = spec.inputs[place.first_input].NumElements();
    const int64_t of_block = std::max(kLeastOfBlock, (n + most_blocks - 1) / most_blocks);
    calls.push_back({place, n, of_block, (n + of_block - 1) / of_block});
  }
  return calls.size() <= kFewCalls ? SumCalls<T, squares, kFewCalls>(calls, scale)
                                   : SumCalls<T, squares, kManyCalls>(calls, scale);
}

template <typename Row, typename Fold, typename T>
__global__ void __launch_bounds__(kRowThreads)
    FoldRow(Rows rows, const T* x, float* y, float scale) {
  const Row row;
  const int64_t r = row.index();
  if (r >= rows.count) return;
  x += r * rows.length;
  const float folded =
      row.template Folded<Fold, kPack<T>>(rows, [&](int64_t i, auto& term) { Load(x + i, term); });
  if (row.IsFirst()) y[r] = scale == 1 ? folded : folded * scale;
}

template <typename Fold, typename T>
PreparedKernel ReduceRows(const ReducedShape& kept, float scale) {
  return MakeKernel([kept, scale](const KernelContext& context, const Operands& at) {
    const T* const x = at.at<T>(0);
    return LaunchRows(context, RowsOf<T>(kept.outer, kept.reduced, x), FoldRow<WarpRow, Fold, T>,
                      FoldRow<BlockRow, Fold, T>, x, at.at(1), scale);
  });
}

// Where calls of one shape read and write. Of arrays of pointers nvcc makes copies in local memory,
// of an array of these none.
struct Folded {
  const void* x;
  float* y;
};
struct FoldTable {
  Folded calls[kFewCalls];
};

// Of each outer index of each call `blocks` blocks of rows, whose results are [call, outer, block,
// inner] of `sums`, or, if there are none, those of the call.
template <typename Fold, typename T>
__global__ void __launch_bounds__(kColumnThreads)
    FoldColumns(FoldTable table, float* sums, float scale, int64_t rows, int64_t outer,
                int64_t blocks, int64_t block_rows, int64_t width) {
  const ColumnBlock columns(width);
  const int call = static_cast<int>(columns.part / (outer * blocks));
  const Folded& at = table.calls[call];
  const int64_t part = columns.part - call * outer * blocks;
  const int64_t begin = part % blocks * block_rows;
  const int64_t end = begin + block_rows < rows ? begin + block_rows : rows;
  const T* const from = static_cast<const T*>(at.x) + part / blocks * rows * width + columns.column;
  float* const to =
      (sums != nullptr ? sums + columns.part * width : at.y + part * width) + columns.column;
  float total[1];
  columns.FoldRows<Fold, 8>(
      begin, end, [&](int64_t r) { return from[r * width]; },
      [](int64_t, T read, float(&sum)[1]) { sum[0] = Fold::Of(sum[0], Widen(read)); }, total);
  if (WarpOfBlock() != 0 || !columns.valid) return;
  const float result = rows == 0 && Fold::kIdentity == 0 ? 0 : total[0];
  *to = scale == 1 ? result : result * scale;
}

__global__ void __launch_bounds__(256)
    AddRowBlocks(const float* sums, FoldTable table, float scale, int64_t calls, int64_t outer,
                 int64_t blocks, int64_t width) {
  const int64_t i = ThreadIndex();
  if (i >= calls * outer * width) return;
  const float* const from = sums + i / width * blocks * width + i % width;
  const int call = static_cast<int>(i / (outer * width));
  table.calls[call].y[i - call * outer * width] =
      PlusTerms(from[0], from, width, blocks * width, width) * scale;
}

// The blocks that rows are folded in: one where there are few, or where a fold is no sum.
struct CutRows {
  int64_t blocks = 1, block_rows;
  CutRows(int64_t rows, int64_t width, bool sums) : block_rows(rows) {
    const RowBlocks cut(rows, width);
    if (sums && rows >= kManyRows) blocks = cut.blocks;
    if (blocks > 1) block_rows = cut.block_rows;
  }
};

template <typename Fold, typename T>
PreparedKernel ReduceColumns(const ReducedShape& kept, float scale, int calls) {
  const int64_t outer = kept.outer, rows = kept.reduced, width = kept.inner;
  const CutRows cut(rows, width, std::is_base_of_v<SumFold, Fold>);
  const bool in_blocks = cut.blocks > 1;
  return MakeKernel(
      [=](const KernelContext& context, const Operands& at) -> absl::Status {
        if (outer * width == 0) return absl::OkStatus();
        FoldTable table = {};
        for (int c = 0; c < calls; ++c) table.calls[c] = {at.at<T>(c), at.at(calls + c)};
        float* const sums = in_blocks ? at.scratch<float>() : nullptr;
        RETURN_IF_ERROR(
            Launch(context, FoldColumns<Fold, T>,
                   ColumnBlock::GridOf(width, calls * outer * cut.blocks, cut.block_rows, 1), table,
                   sums, in_blocks ? 1 : scale, rows, outer, cut.blocks, cut.block_rows, width));
        if (!in_blocks) return absl::OkStatus();
        return Launch(context, AddRowBlocks, GridOfFewSums(calls * outer * width), sums, table,
                      scale, int64_t{calls}, outer, cut.blocks, width);
      },
      in_blocks ? calls* outer* cut.blocks* width * 4 : 0);
}

// What a lane has of a row that is mapped and summed: an element, or two of bf16 beside each other.
template <typename Word>
constexpr int kOfWord = std::is_same_v<Word, uint32_t> ? 2 : 1;
template <typename Word>
SLUICE_INLINE void Open(Word word, F (&x)[kOfWord<Word>]) {
  if constexpr (kOfWord<Word> == 2) {
    x[0] = FromBits(word << 16), x[1] = FromBits(word & 0xffff0000);
  } else {
    x[0] = Widen(word);
  }
}
template <typename Word>
SLUICE_INLINE Word Closed(const F (&x)[kOfWord<Word>]) {
  if constexpr (kOfWord<Word> == 2) {
    return TwoHalves(x[0], x[1]);
  } else {
    Word word;
    Narrow(x[0], &word);
    return word;
  }
}

// dx = formula(x, dy), and what FoldColumns makes of it, while it is at hand; and value(x), if that
// is wanted, which has the most of its terms in common with the slope. `width`: in words.
// Four rows are read ahead: with eight a processor has registers for one block, which leaves it
// waiting for what it computes.
template <typename Word, F (*formula)(F, F), F (*value)(F)>
__global__ void __launch_bounds__(kColumnThreads)
    MapTwoAndSum(const Word* x, const Word* dy, Word* dx, Word* y, float* sums, int64_t rows,
                 int64_t block_rows, int64_t width) {
  constexpr int kSums = kOfWord<Word>;
  const ColumnBlock columns(width);
  const int64_t begin = columns.part * block_rows;
  const int64_t end = begin + block_rows < rows ? begin + block_rows : rows;
  struct Read {
    Word x, dy;
  };
  float total[kSums];
  columns.FoldRows<SumFromNothing, 4>(
      begin, end,
      [&](int64_t r) {
        const int64_t i = r * width + columns.column;
        return Read{x[i], dy[i]};
      },
      [&](int64_t r, const Read& read, float(&sum)[kSums]) {
        F of[kSums], slope[kSums];
        const int64_t i = r * width + columns.column;
        Open(read.x, of);
        Open(read.dy, slope);
        for (int e = 0; e < kSums; ++e) slope[e] = formula(of[e], slope[e]);
        const Word made = Closed<Word>(slope);
        dx[i] = made;
        if constexpr (value != nullptr) {
          for (int e = 0; e < kSums; ++e) of[e] = value(of[e]);
          y[i] = Closed<Word>(of);
        }
        Open(made, slope);
        for (int e = 0; e < kSums; ++e) sum[e] = sum[e] + slope[e];
      },
      total);
  if (WarpOfBlock() != 0 || !columns.valid) return;
  float* const to = sums + (columns.part * width + columns.column) * kSums;
  for (int e = 0; e < kSums; ++e) to[e] = rows == 0 ? 0 : total[e];
}

// x, dy -> dx and its sums down the columns, and value(x) behind them.
template <F (*formula)(F, F), F (*value)(F) = nullptr>
PreparedKernel PrepareMapAndSum(const KernelSpec& spec) {
  constexpr bool kValues = value != nullptr;
  const DType dtype = spec.inputs[0].dtype;
  std::vector<DType> types = {dtype, dtype, dtype, DType::kF32};
  if (kValues) types.push_back(dtype);
  RETURN_IF_ERROR(RequireTypes(spec, types));
  const int64_t rows = NumRows(spec.inputs[0].local), width = RowLength(spec.inputs[0].local);
  const CutRows cut(rows, width, /*sums=*/true);
  const bool in_blocks = cut.blocks > 1;
  return OfFloat(spec, dtype, [&]<typename T>(T) {
    return MakeKernel(
        [=](const KernelContext& context, const Operands& at) -> absl::Status {
          if (width == 0) return absl::OkStatus();
          float *const sum = at.at(3), *const sums = in_blocks ? at.scratch<float>() : sum;
          T* const y = kValues ? at.at<T>(4) : nullptr;
          const auto launch = [&]<typename Word>(Word) {
            const int64_t words = width / kOfWord<Word>;
            return Launch(context, MapTwoAndSum<Word, formula, value>,
                          ColumnBlock::GridOf(words, cut.blocks, cut.block_rows, kOfWord<Word>),
                          at.at<Word>(0), at.at<Word>(1), at.at<Word>(2),
                          reinterpret_cast<Word*>(y), sums, rows, cut.block_rows, words);
          };
          const bool pairs = sizeof(T) == 2 && width % 2 == 0 &&
                             PackAligned(at.at<T>(0), at.at<T>(1), at.at<T>(2), y);
          RETURN_IF_ERROR(pairs ? launch(uint32_t{0}) : launch(T{}));
          if (!in_blocks) return absl::OkStatus();
          return Launch(context, AddRowBlocks, GridOfFewSums(width), sums,
                        FoldTable{{{nullptr, sum}}}, 1.0f, int64_t{1}, int64_t{1}, cut.blocks,
                        width);
        },
        in_blocks ? cut.blocks* width * 4 : 0);
  });
}

// Dimensions of a tensor, by their strides, from the last on.
struct Dimensions {
  static constexpr int kMost = 8;
  int count = 0;
  int64_t extents[kMost] = {}, strides[kMost] = {};
  int64_t elements = 1;

  void Add(int64_t extent, int64_t stride) {
    extents[count] = extent;
    strides[count++] = stride;
    elements *= extent;
  }
  // Whether all that Offset gives are multiples of `unit`.
  bool AreMultiplesOf(int64_t unit) const {
    return std::all_of(strides, strides + count, [=](int64_t s) { return s % unit == 0; });
  }
  __device__ int64_t Offset(int64_t index) const {
    int64_t offset = 0;
    for (int d = 0; d < count; ++d) {
      offset += index % extents[d] * strides[d];
      index /= extents[d];
    }
    return offset;
  }
};

// Where a tensor's reduced dimensions lie apart: those that are kept, and the reduced ones but for
// the last that lie side by side, whose elements are a row.
struct Apart {
  Dimensions kept, reduced;
  int64_t row = 1;
};

// The last dimension is kept: a thread an element of the result.
template <typename Fold, typename T>
__global__ void __launch_bounds__(256) FoldApart(const T* x, float* y, float scale, Apart apart) {
  const int64_t i = ThreadIndex();
  if (i >= apart.kept.elements) return;
  const T* const from = x + apart.kept.Offset(i);
  float total = Fold::kIdentity;
  for (int64_t j = 0; j < apart.reduced.elements; ++j) {
    total = Fold::Of(total, Widen(from[apart.reduced.Offset(j)]));
  }
  y[i] = scale == 1 ? total : total * scale;
}

template <typename Row, typename Fold, typename T>
__global__ void __launch_bounds__(kRowThreads)
    FoldRowsApart(Rows rows, const T* x, float* y, float scale, Apart apart) {
  const Row row;
  const int64_t i = row.index();
  if (i >= rows.count) return;
  const T* const from = x + apart.kept.Offset(i);
  float total = Fold::kIdentity;
  for (int64_t j = 0; j < apart.reduced.elements; ++j) {
    const T* const first = from + apart.reduced.Offset(j);
    total = Fold::Of(total, row.template Folded<Fold, kPack<T>>(
                                rows, [&](int64_t k, auto& term) { Load(first + k, term); }));
  }
  if (row.IsFirst()) y[i] = scale == 1 ? total : total * scale;
}

template <typename Fold, typename T>
PreparedKernel ReduceApart(const KernelSpec& spec, const Shape& dims, float scale) {
  const Shape& shape = spec.inputs[0].local;
  if (shape.rank() > Dimensions::kMost) return NoKernel(spec);
  const Shape strides = shape.Strides();
  Apart apart;
  bool in_row = true;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    if (shape[d] == 1) continue;
    const bool reduces = std::find(dims.begin(), dims.end(), d) != dims.end();
    in_row &= reduces;
    if (in_row) {
      apart.row *= shape[d];
    } else {
      (reduces ? apart.reduced : apart.kept).Add(shape[d], strides[d]);
    }
  }
  return MakeKernel([apart, scale](const KernelContext& context,
                                   const Operands& at) -> absl::Status {
    const int64_t n = apart.kept.elements;
    if (n == 0) return absl::OkStatus();
    if (apart.row == 1) {
      return Launch(context, FoldApart<Fold, T>, GridOf(n), at.at<T>(0), at.at(1), scale, apart);
    }
    const T* const x = at.at<T>(0);
    Rows rows = RowsOf<T>(n, apart.row, x);
    rows.in_packs &= apart.kept.AreMultiplesOf(kPack<T>) && apart.reduced.AreMultiplesOf(kPack<T>);
    return LaunchRows(context, rows, FoldRowsApart<WarpRow, Fold, T>,
                      FoldRowsApart<BlockRow, Fold, T>, x, at.at(1), scale, apart);
  });
}

template <typename Fold, typename T>
PreparedKernel PrepareFold(const KernelSpec& spec, const ReduceAttributes& attributes,
                           double scale) {
  const ReducedShape kept(spec.inputs[0].local, attributes.dims);
  const float factor = static_cast<float>(scale);
  constexpr bool kSums = std::is_base_of_v<SumFold, Fold>;
  using RowFold = std::conditional_t<kSums, SumFold, Fold>;
  if (!kept.contiguous) return ReduceApart<RowFold, T>(spec, attributes.dims, factor);
  if (kSums && kept.outer == 1 && kept.inner == 1) {
    constexpr int64_t kMostBlocks = 32;
    return ReduceAll<T, false>(spec, scale, kMostBlocks);
  }
  if (kept.inner == 1) return ReduceRows<RowFold, T>(kept, factor);
  return ReduceColumns<Fold, T>(kept, factor, spec.calls);
}

// Whether calls are folds down columns, all of one shape: attention's gradients are.
bool AreAlike(const KernelSpec& spec, const ReduceAttributes& attributes) {
  const Shard& x = spec.inputs[0];
  const ReducedShape kept(x.local, attributes.dims);
  if (!kept.contiguous || kept.inner == 1 || spec.calls > kFewCalls) return false;
  return std::all_of(spec.inputs.begin(), spec.inputs.end(), [&](const Shard& other) {
    return other.dtype == x.dtype && other.local == x.local && other.logical == x.logical;
  });
}

}  // namespace

// What is summed up is f32, of bf16 too.
PreparedKernel PrepareReduce(const KernelSpec& spec) {
  ASSIGN_OR_RETURN(const ReduceAttributes attributes,
                   ParseAttributes<ReduceAttributes>(spec.attributes));
  if (spec.calls > 1 && !AreAlike(spec, attributes)) return PrepareEachCall(spec, PrepareReduce);
  const DType dtype = spec.inputs[0].dtype;
  RETURN_IF_ERROR(RequireTypes(CallOf(spec, 0), {dtype, DType::kF32}));
  double scale = 1;
  if (attributes.mean) {
    for (int64_t d : attributes.dims) {
      scale /= static_cast<double>(spec.inputs[0].logical[static_cast<int>(d)]);
    }
  }
  return OfFloat(spec, dtype, [&]<typename T>(T) -> PreparedKernel {
    switch (attributes.reduction) {
      case Reduction::kSum:
        return PrepareFold<SumFromNothing, T>(spec, attributes, scale);
      case Reduction::kMax:
        return PrepareFold<MaxFold, T>(spec, attributes, scale);
      default:
        return PrepareFold<MinFold, T>(spec, attributes, scale);
    }
  });
}

PreparedKernel PrepareGeluGradientSum(const KernelSpec& spec) {
  return PrepareMapAndSum<GeluGradientOf>(spec);
}
PreparedKernel PrepareGeluErfGradientSum(const KernelSpec& spec) {
  return PrepareMapAndSum<GeluErfGradientOf>(spec);
}
PreparedKernel PrepareGeluGradientSumAndValue(const KernelSpec& spec) {
  return PrepareMapAndSum<GeluGradientOf, GeluOf>(spec);
}
PreparedKernel PrepareGeluErfGradientSumAndValue(const KernelSpec& spec) {
  return PrepareMapAndSum<GeluErfGradientOf, GeluErfOf>(spec);
}

PreparedKernel PrepareSumSquares(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32(spec));
  constexpr int64_t kMostBlocks = 512;
  return ReduceAll<float, true>(spec, 1, kMostBlocks);
}

}  // namespace sluice::cuda
