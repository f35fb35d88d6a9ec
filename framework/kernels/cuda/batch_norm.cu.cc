// Batch normalization of [groups, rows.., channels], with the bits of the CPU.
#include <algorithm>
#include <tuple>

#include "framework/kernels/cuda/all_kernels.h"
#include "framework/kernels/cuda/columns.h"
#include "framework/tensor/row_blocks.h"

namespace sluice::cuda {
namespace {

// The rows of each group, and the blocks in which sums over them are made.
struct Extents {
  int64_t groups, rows, channels;  // rows of one group, of the shard
  int64_t blocks, block_rows;
  float share;  // one of the rows of a group of the logical tensor

  explicit Extents(const Shard& x) {
    const int last = x.local.rank() - 1;
    groups = x.local[0], channels = x.local[last], rows = 1;
    int64_t whole = 1;
    for (int d = 1; d < last; ++d) rows *= x.local[d], whole *= x.logical[d];
    const RowBlocks cut(rows, channels);
    blocks = cut.blocks, block_rows = cut.block_rows;
    share = static_cast<float>(1 / static_cast<double>(whole));
  }
  int64_t of_groups() const { return groups * channels; }  // of a statistic
  int64_t sums_bytes(int sums) const { return blocks * sums * of_groups() * 4; }
  Grid GridOfSums(int sums) const {
    return ColumnBlock::GridOf(channels, groups * blocks, block_rows, sums);
  }
};

// What normalizes, by groups and channels. A norm without gamma or beta has none of its own.
struct Statistics {
  const float *mean, *variance, *gamma, *beta;
  float epsilon;
};

// The same of one channel of one group.
struct ChannelNorm {
  float mean = 0, rstd = 0, factor = 0, beta = 0;

  __device__ ChannelNorm(const Statistics& of, int64_t group, int64_t channels, int64_t channel) {
    if (channel >= channels) return;
    mean = of.mean[group * channels + channel];
    rstd = 1 / sqrtf(of.variance[group * channels + channel] + of.epsilon);
    factor = of.gamma == nullptr ? rstd : rstd * of.gamma[channel];
    beta = of.beta == nullptr ? 0 : of.beta[channel];
  }
  __device__ float Of(float x) const { return fmaf(x - mean, factor, beta); }
};

// Of so many channels beside each other.
template <int width>
struct ChannelNorms {
  float mean[width], rstd[width], factor[width], beta[width] = {};

  __device__ ChannelNorms(const Statistics& of, int64_t group, int64_t channels, int64_t channel) {
    Load(of.mean + group * channels + channel, mean);
    Load(of.variance + group * channels + channel, rstd);
    for (int c = 0; c < width; ++c) factor[c] = rstd[c] = 1 / sqrtf(rstd[c] + of.epsilon);
    if (of.gamma != nullptr) {
      Load(of.gamma + channel, factor);
      for (int c = 0; c < width; ++c) factor[c] = rstd[c] * factor[c];
    }
    if (of.beta != nullptr) Load(of.beta + channel, beta);
  }
  __device__ float Of(int c, float x) const { return fmaf(x - mean[c], factor[c], beta[c]); }
};

// How a block's threads walk elements, by items of `width` channels: threads that follow each other
// take items that do, of a row and then of the next, and each goes on with the same channels of
// rows further down.
constexpr int kElementThreads = 256, kRowsOfThread = 8;
struct ChannelWalk {
  unsigned across, at_a_time;  // items of a row, rows
  unsigned stripes, chunks;    // blocks that a row takes, and the rows of a group

  ChannelWalk(const Extents& x, int64_t width) {
    const int64_t items = x.channels / width;
    across = static_cast<unsigned>(std::min<int64_t>(items, kElementThreads));
    at_a_time = kElementThreads / across;
    const int64_t rows = int64_t{at_a_time} * kRowsOfThread;
    stripes = static_cast<unsigned>((items + across - 1) / across);
    chunks = static_cast<unsigned>((x.rows + rows - 1) / rows);
  }
  Grid GridOf(const Extents& x) const {
    return {dim3(static_cast<unsigned>(stripes * chunks * x.groups)), dim3(kElementThreads)};
  }
};

// What the calling thread walks.
struct ChannelRows {
  int64_t group, channel, row, end, step;  // rows counted through all groups

  __device__ ChannelRows(const ChannelWalk& walk, const Extents& x, int width) {
    const unsigned part = blockIdx.x / walk.stripes, own = threadIdx.x / walk.across;
    const unsigned item = blockIdx.x % walk.stripes * walk.across + threadIdx.x % walk.across;
    channel = int64_t{item} * width;
    group = part / walk.chunks;
    step = walk.at_a_time;
    const int64_t first = part % walk.chunks * step * kRowsOfThread;
    const int64_t last = first + step * kRowsOfThread;
    row = group * x.rows + first + own;
    end = group * x.rows + (last < x.rows ? last : x.rows);
    if (own >= step || channel >= x.channels) end = row;  // threads that are left over
  }
  __device__ bool IsEmpty() const { return row >= end; }
  // fn(i), for an item from i on.
  template <typename Fn>
  __device__ void ForEach(int64_t channels, const Fn& fn) const {
    for (int64_t r = row; r < end; r += step) fn(r * channels + channel);
  }
};

template <typename T, bool adds, bool rectifies, int width>
__global__ void __launch_bounds__(kElementThreads)
    Normalize(ChannelWalk walk, Extents extents, const T* x, Statistics statistics, const T* addend,
              T* y) {
  const ChannelRows rows(walk, extents, width);
  if (rows.IsEmpty()) return;
  const ChannelNorms<width> norms(statistics, rows.group, extents.channels, rows.channel);
  rows.ForEach(extents.channels, [&](int64_t i) {
    float a[width], added[width];
    Load(x + i, a);
    if constexpr (adds) Load(addend + i, added);
    for (int c = 0; c < width; ++c) {
      a[c] = norms.Of(c, a[c]);
      if constexpr (adds) a[c] = Rounded<T>(a[c]) + added[c];
      if constexpr (rectifies) a[c] = ReluOf(Rounded<T>(a[c]));
    }
    Store(a, y + i);
  });
}

template <typename T, bool rectified, int width>
__global__ void __launch_bounds__(kElementThreads)
    InputGradient(ChannelWalk walk, Extents extents, const T* dy, const T* x, Statistics statistics,
                  const float* dgamma, const float* dbeta, T* dx) {
  const ChannelRows rows(walk, extents, width);
  if (rows.IsEmpty()) return;
  const ChannelNorms<width> norms(statistics, rows.group, extents.channels, rows.channel);
  const int64_t own = rows.group * extents.channels + rows.channel;
  float slope[width], shift[width];
  Load(dgamma + own, slope);
  Load(dbeta + own, shift);
  for (int c = 0; c < width; ++c) {
    slope[c] = norms.rstd[c] * slope[c] * extents.share;
    shift[c] = shift[c] * extents.share;
  }
  rows.ForEach(extents.channels, [&](int64_t i) {
    float gradient[width], value[width];
    Load(dy + i, gradient);
    Load(x + i, value);
    for (int c = 0; c < width; ++c) {
      if constexpr (rectified) {
        gradient[c] = ReluGradientOf(Rounded<T>(norms.Of(c, value[c])), gradient[c]);
      }
      const float centred = value[c] - norms.mean[c];
      gradient[c] = norms.factor[c] * (gradient[c] - shift[c] - centred * slope[c]);
    }
    Store(gradient, dx + i);
  });
}

// Sums over a block of rows of a group, to sums[group, block, kSums, channels]. load(i): what is
// read of the element i; add(i, loaded, part): adds that.
template <int kAhead, int kSums, typename Load, typename Add>
__device__ void SumBlock(const Extents& x, const ColumnBlock& block, const Load& load,
                         const Add& add, float* sums) {
  const int64_t begin = block.part % x.blocks * x.block_rows;
  const int64_t end = begin + x.block_rows < x.rows ? begin + x.block_rows : x.rows;
  const int64_t first_row = block.part / x.blocks * x.rows;
  float total[kSums];
  const auto element = [&](int64_t r) { return (first_row + r) * x.channels + block.column; };
  block.FoldRows<SumFold, kAhead>(
      begin, end, [&](int64_t r) { return load(element(r)); },
      [&](int64_t r, const auto& read, float(&part)[kSums]) { add(element(r), read, part); },
      total);
  if (WarpOfBlock() != 0 || !block.valid) return;
  for (int s = 0; s < kSums; ++s) {
    sums[(block.part * kSums + s) * x.channels + block.column] = total[s];
  }
}

template <typename T>
__global__ void __launch_bounds__(kColumnThreads)
    SumSquares(Extents extents, const T* x, const float* mean, float* sums) {
  const ColumnBlock block(extents.channels);
  const int64_t group = block.part / extents.blocks;
  const float center = block.valid ? mean[group * extents.channels + block.column] : 0;
  SumBlock<8, 1>(
      extents, block, [&](int64_t i) { return x[i]; },
      [&](int64_t, T read, float(&part)[1]) {
        const float centred = Widen(read) - center;
        part[0] = fmaf(centred, centred, part[0]);
      },
      sums);
}

// The gradients whose sums those of gamma and beta are: dy where nothing follows the norm, that of
// its relu, or of the relu behind an addition, which is stored. Read gives what of an element At
// makes the slope of.
template <typename T>
struct PlainSlopes {
  const T* dy;
  __device__ T Read(int64_t i) const { return dy[i]; }
  __device__ float At(int64_t, T read, float, const ChannelNorm&) const { return Widen(read); }
};
template <typename T>
struct ReluSlopes {
  const T* dy;
  __device__ T Read(int64_t i) const { return dy[i]; }
  __device__ float At(int64_t, T read, float x, const ChannelNorm& norm) const {
    return ReluGradientOf(Rounded<T>(norm.Of(x)), Widen(read));
  }
};
template <typename T>
struct AddReluSlopes {
  const T *y, *dy, *other_dy;  // the gradient is dy, or dy + other_dy where that is not null
  T* dz;
  struct Element {
    T y, dy, other_dy;
  };
  __device__ Element Read(int64_t i) const {
    return {y[i], dy[i], other_dy == nullptr ? T{} : other_dy[i]};
  }
  __device__ float At(int64_t i, const Element& read, float, const ChannelNorm&) const {
    float gradient = Widen(read.dy);
    if (other_dy != nullptr) gradient = Rounded<T>(gradient + Widen(read.other_dy));
    const float slope = ReluGradientOf(Widen(read.y), gradient);
    Narrow(slope, dz + i);
    return slope;
  }
};

template <typename T, typename Slopes>
__global__ void __launch_bounds__(kColumnThreads)
    SumSlopes(Extents extents, Slopes slopes, const T* x, Statistics statistics, float* sums) {
  const ColumnBlock block(extents.channels);
  const ChannelNorm norm(statistics, block.part / extents.blocks, extents.channels, block.column);
  struct Read {
    T x;
    decltype(slopes.Read(0)) of_slope;
  };
  SumBlock<4, 2>(
      extents, block,
      [&](int64_t i) {
        return Read{x[i], slopes.Read(i)};
      },
      [&](int64_t i, const Read& read, float(&part)[2]) {
        const float value = Widen(read.x), slope = slopes.At(i, read.of_slope, value, norm);
        part[0] = fmaf(slope, value - norm.mean, part[0]);
        part[1] = part[1] + slope;
      },
      sums);
}

// A channel of a group: one of `kSums` sums over all blocks.
template <int kSums>
__device__ float AddBlocks(const Extents& x, const float* sums, int64_t own, int sum) {
  const float* const from =
      sums + (own / x.channels * x.blocks * kSums + sum) * x.channels + own % x.channels;
  const int64_t step = kSums * x.channels;
  return PlusTerms(from[0], from, step, x.blocks * step, step);
}

__global__ void __launch_bounds__(256)
    FinishVariance(Extents extents, const float* sums, float* variance) {
  const int64_t own = ThreadIndex();
  if (own >= extents.groups * extents.channels) return;
  variance[own] = AddBlocks<1>(extents, sums, own, 0) * extents.share;
}

__global__ void __launch_bounds__(256)
    FinishParameterGradient(Extents extents, const float* sums, Statistics statistics,
                            float* dgamma, float* dbeta) {
  const int64_t count = extents.groups * extents.channels, i = ThreadIndex();
  if (i >= 2 * count) return;
  const int64_t own = i % count, group = own / extents.channels, channel = own % extents.channels;
  if (i < count) {
    const ChannelNorm norm(statistics, group, extents.channels, channel);
    dgamma[own] = AddBlocks<2>(extents, sums, own, 0) * norm.rstd;
  } else {
    dbeta[own] = AddBlocks<2>(extents, sums, own, 1);
  }
}

__global__ void __launch_bounds__(256)
    Average(float kept, float momentum, const float* value, float* average, int64_t n) {
  const int64_t i = ThreadIndex();
  if (i < n) average[i] = kept * average[i] + momentum * value[i];
}

// kernel(walk, extents, arguments..), that of two which walks packs of T or elements. `pointers`:
// of all that packs are loaded from or stored to.
template <typename T, typename... Parameters, typename... Pointers, typename... Arguments>
absl::Status LaunchChannels(const KernelContext& context, const Extents& x,
                            const std::tuple<Pointers...>& pointers,
                            void (*of_packs)(Parameters...), void (*of_elements)(Parameters...),
                            Arguments... arguments) {
  const bool aligned =
      std::apply([](const auto*... each) { return PackAligned(each...); }, pointers);
  const bool in_packs = aligned && x.channels % kPack<T> == 0;
  const ChannelWalk walk(x, in_packs ? kPack<T> : 1);
  return Launch(context, in_packs ? of_packs : of_elements, walk.GridOf(x), walk, x, arguments...);
}

// OK if all are f32 but those listed, inputs and then outputs, which are of x's dtype.
absl::Status RequireOf(const KernelSpec& spec, DType dtype, std::initializer_list<int> wide) {
  std::vector<DType> types(spec.inputs.size() + spec.outputs.size(), DType::kF32);
  for (const int i : wide) types[i] = dtype;
  return RequireTypes(spec, types);
}

absl::StatusOr<float> EpsilonOf(const KernelSpec& spec) {
  ASSIGN_OR_RETURN(const NormAttributes attributes,
                   ParseAttributes<NormAttributes>(spec.attributes));
  return static_cast<float>(attributes.epsilon);
}

// y of x, mean, variance, gamma and beta, and then the addend if there is one.
template <bool adds, bool rectifies>
PreparedKernel PrepareNormalize(const KernelSpec& spec) {
  const DType dtype = spec.inputs[0].dtype;
  RETURN_IF_ERROR(adds ? RequireOf(spec, dtype, {0, 5, 6}) : RequireOf(spec, dtype, {0, 5}));
  ASSIGN_OR_RETURN(const float epsilon, EpsilonOf(spec));
  const Extents x(spec.inputs[0]);
  return OfFloat(spec, dtype, [&]<typename T>(T) {
    return MakeKernel(
        [x, epsilon](const KernelContext& context, const Operands& at) -> absl::Status {
          if (x.of_groups() * x.rows == 0) return absl::OkStatus();
          const Statistics statistics = {at.at(1), at.at(2), at.at(3), at.at(4), epsilon};
          const T *const from = at.at<T>(0), *const addend = adds ? at.at<T>(5) : nullptr;
          T* const y = at.at<T>(adds ? 6 : 5);
          return LaunchChannels<T>(context, x,
                                   std::tuple(from, statistics.mean, statistics.variance,
                                              statistics.gamma, statistics.beta, addend, y),
                                   Normalize<T, adds, rectifies, kPack<T>>,
                                   Normalize<T, adds, rectifies, 1>, from, statistics, addend, y);
        });
  });
}

// dgamma and dbeta, the operands from `outputs` on. slopes_of(at) gives what is summed; x is
// operand 1, and mean and variance, to which gamma and beta may belong, stand behind it.
template <typename T, typename SlopesOf>
PreparedKernel MakeParameterGradient(const Extents& x, float epsilon, bool has_gamma, int outputs,
                                     SlopesOf slopes_of) {
  using Slopes = decltype(slopes_of(std::declval<const Operands&>()));
  return MakeKernel(
      [=](const KernelContext& context, const Operands& at) -> absl::Status {
        if (x.of_groups() == 0) return absl::OkStatus();
        float* const sums = at.scratch<float>();
        const Statistics statistics = {at.at(2), at.at(3), has_gamma ? at.at(4) : nullptr,
                                       has_gamma ? at.at(5) : nullptr, epsilon};
        RETURN_IF_ERROR(Launch(context, SumSlopes<T, Slopes>, x.GridOfSums(2), x, slopes_of(at),
                               at.at<T>(1), statistics, sums));
        return Launch(context, FinishParameterGradient, GridOfFewSums(2 * x.of_groups()), x, sums,
                      statistics, at.at(outputs), at.at(outputs + 1));
      },
      x.sums_bytes(2));
}

// dx of dy, x, mean, variance, gamma, beta if `rectified`, dgamma and dbeta.
template <bool rectified>
PreparedKernel PrepareGradient(const KernelSpec& spec) {
  constexpr int kSums = rectified ? 6 : 5;  // where dgamma and dbeta stand
  const DType dtype = spec.inputs[0].dtype;
  RETURN_IF_ERROR(RequireOf(spec, dtype, {0, 1, kSums + 2}));
  ASSIGN_OR_RETURN(const float epsilon, EpsilonOf(spec));
  const Extents x(spec.inputs[1]);
  return OfFloat(spec, dtype, [&]<typename T>(T) {
    return MakeKernel(
        [x, epsilon](const KernelContext& context, const Operands& at) -> absl::Status {
          if (x.of_groups() * x.rows == 0) return absl::OkStatus();
          const Statistics statistics = {at.at(2), at.at(3), at.at(4),
                                         rectified ? at.at(5) : nullptr, epsilon};
          const T *const dy = at.at<T>(0), *const from = at.at<T>(1);
          const float *const dgamma = at.at(kSums), *const dbeta = at.at(kSums + 1);
          T* const dx = at.at<T>(kSums + 2);
          return LaunchChannels<T>(context, x,
                                   std::tuple(dy, from, statistics.mean, statistics.variance,
                                              statistics.gamma, statistics.beta, dgamma, dbeta, dx),
                                   InputGradient<T, rectified, kPack<T>>,
                                   InputGradient<T, rectified, 1>, dy, from, statistics, dgamma,
                                   dbeta, dx);
        });
  });
}

}  // namespace

// x, mean; variance.
PreparedKernel PrepareBatchVariance(const KernelSpec& spec) {
  const DType dtype = spec.inputs[0].dtype;
  RETURN_IF_ERROR(RequireOf(spec, dtype, {0}));
  const Extents x(spec.inputs[0]);
  return OfFloat(spec, dtype, [&]<typename T>(T) {
    return MakeKernel(
        [x](const KernelContext& context, const Operands& at) -> absl::Status {
          if (x.of_groups() == 0) return absl::OkStatus();
          float* const sums = at.scratch<float>();
          RETURN_IF_ERROR(
              Launch(context, SumSquares<T>, x.GridOfSums(1), x, at.at<T>(0), at.at(1), sums));
          return Launch(context, FinishVariance, GridOfFewSums(x.of_groups()), x, sums, at.at(2));
        },
        x.sums_bytes(1));
  });
}

// x, mean, variance, gamma, beta; y.
PreparedKernel PrepareBatchNorm(const KernelSpec& spec) {
  return PrepareNormalize</*adds=*/false, /*rectifies=*/false>(spec);
}
PreparedKernel PrepareBatchNormRelu(const KernelSpec& spec) {
  return PrepareNormalize</*adds=*/false, /*rectifies=*/true>(spec);
}

// x, mean, variance, gamma, beta, addend; y.
PreparedKernel PrepareBatchNormAdd(const KernelSpec& spec) {
  return PrepareNormalize</*adds=*/true, /*rectifies=*/false>(spec);
}
PreparedKernel PrepareBatchNormAddRelu(const KernelSpec& spec) {
  return PrepareNormalize</*adds=*/true, /*rectifies=*/true>(spec);
}

// dy, x, mean, variance; dgamma, dbeta.
PreparedKernel PrepareBatchNormParameterGradient(const KernelSpec& spec) {
  const DType dtype = spec.inputs[0].dtype;
  RETURN_IF_ERROR(RequireOf(spec, dtype, {0, 1}));
  ASSIGN_OR_RETURN(const float epsilon, EpsilonOf(spec));
  const Extents x(spec.inputs[1]);
  return OfFloat(spec, dtype, [&]<typename T>(T) {
    return MakeParameterGradient<T>(x, epsilon, /*has_gamma=*/false, 4,
                                    [](const Operands& at) { return PlainSlopes<T>{at.at<T>(0)}; });
  });
}

// dy, x, mean, variance, gamma, beta; dgamma, dbeta.
PreparedKernel PrepareBatchNormReluParameterGradient(const KernelSpec& spec) {
  const DType dtype = spec.inputs[0].dtype;
  RETURN_IF_ERROR(RequireOf(spec, dtype, {0, 1}));
  ASSIGN_OR_RETURN(const float epsilon, EpsilonOf(spec));
  const Extents x(spec.inputs[1]);
  return OfFloat(spec, dtype, [&]<typename T>(T) {
    return MakeParameterGradient<T>(x, epsilon, /*has_gamma=*/true, 6,
                                    [](const Operands& at) { return ReluSlopes<T>{at.at<T>(0)}; });
  });
}

// y, x, mean, variance, one or two terms of dy; dgamma, dbeta, dz.
PreparedKernel PrepareBatchNormAddReluParameterGradient(const KernelSpec& spec) {
  const DType dtype = spec.inputs[0].dtype;
  const bool two = spec.inputs.size() > 5;
  RETURN_IF_ERROR(two ? RequireOf(spec, dtype, {0, 1, 4, 5, 8})
                      : RequireOf(spec, dtype, {0, 1, 4, 7}));
  ASSIGN_OR_RETURN(const float epsilon, EpsilonOf(spec));
  const Extents x(spec.inputs[1]);
  const int outputs = static_cast<int>(spec.inputs.size());
  return OfFloat(spec, dtype, [&]<typename T>(T) {
    return MakeParameterGradient<T>(
        x, epsilon, /*has_gamma=*/false, outputs, [two, outputs](const Operands& at) {
          return AddReluSlopes<T>{at.at<T>(0), at.at<T>(4), two ? at.at<T>(5) : nullptr,
                                  at.at<T>(outputs + 2)};
        });
  });
}

// dy, x, mean, variance, gamma, dgamma, dbeta; dx.
PreparedKernel PrepareBatchNormGradient(const KernelSpec& spec) {
  return PrepareGradient<false>(spec);
}

// dy, x, mean, variance, gamma, beta, dgamma, dbeta; dx.
PreparedKernel PrepareBatchNormReluGradient(const KernelSpec& spec) {
  return PrepareGradient<true>(spec);
}

// variable, value.
PreparedKernel PrepareMovingAverage(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32(spec));
  ASSIGN_OR_RETURN(const AverageAttributes attributes,
                   ParseAttributes<AverageAttributes>(spec.attributes));
  const int64_t n = spec.inputs[0].NumElements();
  const float kept = static_cast<float>(1 - attributes.momentum);
  const float momentum = static_cast<float>(attributes.momentum);
  return MakeKernel([=](const KernelContext& context, const Operands& at) -> absl::Status {
    if (n == 0) return absl::OkStatus();
    return Launch(context, Average, GridOf(n), kept, momentum, at.at(1), at.at(0), n);
  });
}

}  // namespace sluice::cuda
