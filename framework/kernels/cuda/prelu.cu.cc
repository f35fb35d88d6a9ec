// PReLU, by rows of channels.
#include "framework/kernels/cuda/all_kernels.h"
#include "framework/kernels/cuda/columns.h"
#include "framework/kernels/cuda/elementwise.h"
#include "framework/kernels/cuda/strided_index.h"
#include "framework/tensor/row_blocks.h"

namespace sluice::cuda {
namespace {

// Items of `width` elements of a row; array 0 of the index is x, array 1 the slopes.
template <typename T, int width>
__global__ void __launch_bounds__(kElementwiseThreads)
    PreluKernel(const T* x, const float* slope, T* y, StridedIndex<2> index) {
  for (int64_t item = ThreadIndex(); item < index.items; item += NumThreads()) {
    F a[width], s[width];
    Load(x + item * width, a);
    Load(slope + OffsetOf(index, item, 1), s);
    for (int e = 0; e < width; ++e) a[e] = PreluOf(a[e], s[e]);
    Store(a, y + item * width);
  }
}

template <typename T, int width>
__global__ void __launch_bounds__(kElementwiseThreads)
    PreluGradientKernel(const T* x, const float* slope, const T* dy, T* dx, StridedIndex<2> index) {
  for (int64_t item = ThreadIndex(); item < index.items; item += NumThreads()) {
    F a[width], s[width], d[width];
    Load(x + item * width, a);
    Load(slope + OffsetOf(index, item, 1), s);
    Load(dy + item * width, d);
    for (int e = 0; e < width; ++e) d[e] = PreluGradientOf(a[e], s[e], d[e]);
    Store(d, dx + item * width);
  }
}

// The two walks over rows of channels.
struct Channels {
  bool in_packs;
  StridedIndex<2> by_pack, by_element;

  Channels(const Shape& shape, int64_t width) {
    const int64_t channels = RowLength(shape);
    const StridedExtent extent({NumRows(shape), channels}, {{channels, 1}, {0, 1}});
    in_packs = WalksInItems(extent, width, /*repeats=*/false);
    by_pack = IndexOf<2>(extent, in_packs ? width : 1);
    by_element = IndexOf<2>(extent);
  }
};

// Of blocks of rows, [blocks, channels].
template <typename T>
__global__ void __launch_bounds__(kColumnThreads)
    SlopeSums(const T* x, const T* dy, float* sums, int64_t rows, int64_t block_rows,
              int64_t channels) {
  const ColumnBlock block(channels);
  const int64_t begin = block.part * block_rows;
  const int64_t end = begin + block_rows < rows ? begin + block_rows : rows;
  float total[1];
  struct Read {
    T x, dy;
  };
  block.FoldRows<SumFold, 8>(
      begin, end,
      [&](int64_t r) {
        const int64_t i = r * channels + block.column;
        return Read{x[i], dy[i]};
      },
      [](int64_t, const Read& read, float(&sum)[1]) {
        sum[0] = sum[0] + PreluSlopeTerm(Widen(read.x), Widen(read.dy));
      },
      total);
  if (WarpOfBlock() == 0 && block.valid) sums[block.part * channels + block.column] = total[0];
}

__global__ void __launch_bounds__(256)
    AddSlopeSums(const float* sums, int64_t blocks, float* dslope, int64_t channels) {
  const int64_t c = ThreadIndex();
  if (c >= channels) return;
  dslope[c] = PlusTerms(sums[c], sums + c, channels, blocks * channels, channels);
}

}  // namespace

// x, slope; y.
PreparedKernel PreparePrelu(const KernelSpec& spec) {
  const DType dtype = spec.inputs[0].dtype;
  RETURN_IF_ERROR(RequireTypes(spec, {dtype, DType::kF32, dtype}));
  return OfFloat(spec, dtype, [&]<typename T>(T) {
    const Channels channels(spec.inputs[0].local, kPack<T>);
    return MakeKernel([channels](const KernelContext& context, const Operands& at) {
      if (channels.by_element.items == 0) return absl::OkStatus();
      const T* const x = at.at<T>(0);
      const float* const slope = at.at(1);
      T* const y = at.at<T>(2);
      if (channels.in_packs && PackAligned(x, slope, y)) {
        return Launch(context, PreluKernel<T, kPack<T>>, GridOver(channels.by_pack.items), x, slope,
                      y, channels.by_pack);
      }
      return Launch(context, PreluKernel<T, 1>, GridOver(channels.by_element.items), x, slope, y,
                    channels.by_element);
    });
  });
}

// x, slope, dy; dx.
PreparedKernel PreparePreluGradient(const KernelSpec& spec) {
  const DType dtype = spec.inputs[0].dtype;
  RETURN_IF_ERROR(RequireTypes(spec, {dtype, DType::kF32, dtype, dtype}));
  return OfFloat(spec, dtype, [&]<typename T>(T) {
    const Channels channels(spec.inputs[0].local, kPack<T>);
    return MakeKernel([channels](const KernelContext& context, const Operands& at) {
      if (channels.by_element.items == 0) return absl::OkStatus();
      const T *const x = at.at<T>(0), *const dy = at.at<T>(2);
      const float* const slope = at.at(1);
      T* const dx = at.at<T>(3);
      if (channels.in_packs && PackAligned(x, slope, dy, dx)) {
        return Launch(context, PreluGradientKernel<T, kPack<T>>, GridOver(channels.by_pack.items),
                      x, slope, dy, dx, channels.by_pack);
      }
      return Launch(context, PreluGradientKernel<T, 1>, GridOver(channels.by_element.items), x,
                    slope, dy, dx, channels.by_element);
    });
  });
}

// x, dy; dslope.
PreparedKernel PreparePreluSlopeGradient(const KernelSpec& spec) {
  const DType dtype = spec.inputs[0].dtype;
  RETURN_IF_ERROR(RequireTypes(spec, {dtype, dtype, DType::kF32}));
  const int64_t rows = NumRows(spec.inputs[0].local), channels = RowLength(spec.inputs[0].local);
  const RowBlocks cut(rows, channels);
  return OfFloat(spec, dtype, [&]<typename T>(T) {
    return MakeKernel(
        [rows, channels, cut](const KernelContext& context, const Operands& at) -> absl::Status {
          if (channels == 0) return absl::OkStatus();
          float* const sums = at.scratch<float>();
          RETURN_IF_ERROR(Launch(context, SlopeSums<T>,
                                 ColumnBlock::GridOf(channels, cut.blocks, cut.block_rows, 1),
                                 at.at<T>(0), at.at<T>(1), sums, rows, cut.block_rows, channels));
          return Launch(context, AddSlopeSums, GridOfFewSums(channels), sums, cut.blocks, at.at(2),
                        channels);
        },
        cut.blocks* channels * 4);
  });
}

}  // namespace sluice::cuda
