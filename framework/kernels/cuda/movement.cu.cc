// Ops that only make, copy, repeat or lay out elements anew, by element size.
#include <cstring>

#include "framework/kernels/cuda/all_kernels.h"
#include "framework/kernels/cuda/elementwise.h"
#include "framework/kernels/cuda/moves.h"
#include "framework/kernels/movement_shape.h"
#include "framework/tensor/array.h"

namespace sluice::cuda {
namespace {

absl::Status RequireOneType(const KernelSpec& spec) {
  return RequireAll(spec, spec.outputs[0].dtype);
}

PreparedKernel CopyKernel(const KernelSpec& spec, const Shape& strides, int64_t first_in = 0) {
  const Shape& y = spec.outputs[0].local;
  const StridedCopy copy(StridedExtent(y, {strides, y.Strides()}), SizeOf(spec.outputs[0].dtype),
                         first_in);
  return MakeKernel([copy](const KernelContext& context, const Operands& at) {
    return copy.Run(context, at.bytes(0), at.bytes(1));
  });
}

// A permutation of dimensions that keeps the last one of neither side: matrices to be transposed,
// one for each index of the other dimensions. The rows of a tile are read and the columns written,
// both as runs of memory; a column more keeps the columns of a tile in banks of their own.
constexpr int kTile = 32, kTileRows = 8;  // rows that a block's threads take at a time
struct Matrices {
  int64_t rows = 0, columns = 0;  // of the input; rows are the output's last dimension
  int64_t from_row = 0, to_row = 0;
  Divisor tiles_across, tiles;  // of a matrix: in a row of tiles, and in all
  int64_t all_tiles = 0;        // of all matrices
  StridedIndex<2> matrix;
};

template <typename Word>
__global__ void __launch_bounds__(kTile* kTileRows)
    TransposeKernel(const Word* from, Word* to, Matrices matrices) {
  const auto tile = reinterpret_cast<Word(*)[kTile + 1]>(SharedMemory<Word>());
  const int along = static_cast<int>(threadIdx.x) % kTile;
  const int first = static_cast<int>(threadIdx.x) / kTile;
  for (int64_t t = blockIdx.x; t < matrices.all_tiles; t += gridDim.x) {
    const int64_t number = Quotient(t, matrices.tiles);
    const int64_t rest = t - number * matrices.tiles.value;
    const int64_t down = Quotient(rest, matrices.tiles_across);
    const int64_t row = down * kTile, column = (rest - down * matrices.tiles_across.value) * kTile;
    int64_t at[2];
    OffsetsOf(matrices.matrix, number, at);
    for (int r = first; r < kTile; r += kTileRows) {
      if (row + r < matrices.rows && column + along < matrices.columns) {
        tile[r][along] = from[at[0] + (row + r) * matrices.from_row + column + along];
      }
    }
    __syncthreads();
    for (int c = first; c < kTile; c += kTileRows) {
      if (column + c < matrices.columns && row + along < matrices.rows) {
        to[at[1] + (column + c) * matrices.to_row + row + along] = tile[along][c];
      }
    }
    __syncthreads();
  }
}

// False if the extent (input, output) is no such thing, or matrices are so narrow that most of a
// tile would be empty.
bool MatricesOf(const StridedExtent& extent, Matrices* made) {
  constexpr int64_t kLeast = 8;
  const int last = extent.rank() - 1;
  if (extent.row_stride(1) != 1 || extent.row_stride(0) == 1 || extent.rows() == 0) return false;
  made->rows = extent.row_length();
  made->from_row = extent.row_stride(0);
  Shape others, from, to;
  for (int d = 0; d < last; ++d) {
    if (made->columns == 0 && extent.stride(0, d) == 1) {
      made->columns = extent.extent(d);
      made->to_row = extent.stride(1, d);
      continue;
    }
    others.Append(extent.extent(d));
    from.Append(extent.stride(0, d));
    to.Append(extent.stride(1, d));
  }
  if (made->rows < kLeast || made->columns < kLeast) return false;
  const auto tiles_of = [](int64_t n) { return (n + kTile - 1) / kTile; };
  const int64_t across = tiles_of(made->columns), of_one = across * tiles_of(made->rows);
  made->all_tiles = others.NumElements() * of_one;
  made->tiles_across = DivisorOf(across, made->all_tiles);
  made->tiles = DivisorOf(of_one, made->all_tiles);
  made->matrix = IndexOf<2>(StridedExtent(others, {from, to}));
  return true;
}

PreparedKernel PermuteKernel(const KernelSpec& spec, const Shape& strides) {
  const Shape& y = spec.outputs[0].local;
  const int64_t size = SizeOf(spec.outputs[0].dtype);
  Matrices matrices;
  if ((size != 2 && size != 4) ||
      !MatricesOf(StridedExtent(y, {strides, y.Strides()}), &matrices)) {
    return CopyKernel(spec, strides);
  }
  const Grid grid = {dim3(static_cast<unsigned>(std::min(matrices.all_tiles, kMostBlocks))),
                     dim3(kTile * kTileRows), static_cast<size_t>(kTile * (kTile + 1) * size)};
  return MakeKernel([=](const KernelContext& context, const Operands& at) {
    return size == 2 ? Launch(context, TransposeKernel<uint16_t>, grid, at.at<uint16_t>(0),
                              at.at<uint16_t>(1), matrices)
                     : Launch(context, TransposeKernel<uint32_t>, grid, at.at<uint32_t>(0),
                              at.at<uint32_t>(1), matrices);
  });
}

// Rows of `whole` words, of which `piece` are copied to behind `before` zeros.
struct Padding {
  int64_t words, before, piece;
  Divisor whole;
};
template <typename Word>
__global__ void __launch_bounds__(kElementwiseThreads)
    PadKernel(const Word* from, Word* to, Padding padding) {
  for (int64_t i = ThreadIndex(); i < padding.words; i += NumThreads()) {
    const int64_t row = Quotient(i, padding.whole);
    const int64_t at = i - row * padding.whole.value - padding.before;
    Word word = {};
    if (at >= 0 && at < padding.piece) word = from[row * padding.piece + at];
    to[i] = word;
  }
}

template <typename Word>
absl::Status LaunchPad(const KernelContext& context, const Operands& at, const PaddedPieces& of) {
  const int64_t size = sizeof(Word), words = of.pieces * of.whole / size;
  const Padding padding = {words, of.before / size, of.bytes / size,
                           DivisorOf(of.whole / size, words)};
  return Launch(context, PadKernel<Word>, GridOver(words), at.at<Word>(0), at.at<Word>(1), padding);
}

}  // namespace

PreparedKernel PrepareFill(const KernelSpec& spec) {
  ASSIGN_OR_RETURN(const FillAttributes attributes,
                   ParseAttributes<FillAttributes>(spec.attributes));
  const Shard& y = spec.outputs[0];
  uint64_t bits = 0;
  StoreElement(y.dtype, reinterpret_cast<std::byte*>(&bits), 0, attributes.value);
  const int64_t n = y.NumElements(), size = SizeOf(y.dtype);
  return MakeKernel([=](const KernelContext& context, const Operands& at) {
    return FillElements(context, bits, size, at.bytes(0), n);
  });
}

PreparedKernel PrepareCopy(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireOneType(spec));
  const int64_t bytes = spec.outputs[0].NumBytes();
  return MakeKernel([bytes](const KernelContext& context, const Operands& at) {
    return CopyBytes(context, at.bytes(0), at.bytes(1), bytes);
  });
}

PreparedKernel PrepareTranspose(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireOneType(spec));
  ASSIGN_OR_RETURN(const Shape strides, TransposedStrides(spec));
  return PermuteKernel(spec, strides);
}

PreparedKernel PrepareTransposeGradient(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireOneType(spec));
  ASSIGN_OR_RETURN(const Shape strides, TransposedBackStrides(spec));
  return PermuteKernel(spec, strides);
}

PreparedKernel PrepareSlice(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireOneType(spec));
  ASSIGN_OR_RETURN(const int64_t begin, SliceBegin(spec));
  return CopyKernel(spec, spec.inputs[0].local.Strides(), begin);
}

PreparedKernel PreparePad(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireOneType(spec));
  ASSIGN_OR_RETURN(const PaddedPieces padded, PaddedPiecesOf(spec));
  const int64_t alike = padded.whole | padded.before | padded.bytes;
  return MakeKernel([padded, alike](const KernelContext& context, const Operands& at) {
    if (padded.pieces * padded.whole == 0) return absl::OkStatus();
    if (alike % 16 == 0 && PackAligned(at.bytes(0), at.bytes(1))) {
      return LaunchPad<uint4>(context, at, padded);
    }
    if (alike % 4 == 0) return LaunchPad<uint32_t>(context, at, padded);
    if (alike % 2 == 0) return LaunchPad<uint16_t>(context, at, padded);
    return LaunchPad<uint8_t>(context, at, padded);
  });
}

PreparedKernel PrepareConcat(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireOneType(spec));
  ASSIGN_OR_RETURN(const ConcatAttributes attributes,
                   ParseAttributes<ConcatAttributes>(spec.attributes));
  const int dim = static_cast<int>(attributes.dim);
  const Shape whole = spec.outputs[0].local.Strides();
  std::vector<StridedCopy> copies;
  int64_t first = 0;
  for (const Shard& input : spec.inputs) {
    copies.emplace_back(StridedExtent(input.local, {input.local.Strides(), whole}),
                        SizeOf(input.dtype), 0, first);
    first += input.local[dim] * whole[dim];
  }
  return MakeKernel([copies](const KernelContext& context, const Operands& at) -> absl::Status {
    const int inputs = static_cast<int>(copies.size());
    for (int i = 0; i < inputs; ++i) {
      RETURN_IF_ERROR(copies[i].Run(context, at.bytes(i), at.bytes(inputs)));
    }
    return absl::OkStatus();
  });
}

PreparedKernel PrepareBroadcast(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireOneType(spec));
  return CopyKernel(spec, BroadcastStrides(spec.inputs[0], spec.outputs[0]));
}

}  // namespace sluice::cuda
