// Layer normalization over the last dimension, with the bits of the CPU.
#include "framework/kernels/cuda/all_kernels.h"
#include "framework/kernels/cuda/columns.h"
#include "framework/kernels/cuda/philox.h"
#include "framework/kernels/cuda/strided_index.h"

namespace sluice::cuda {
namespace {

constexpr int kWidth = kPack<float>;

// What layer norm takes besides its rows, and what it makes.
struct NormOperands {
  const float *gamma, *beta;
  float epsilon;
  float *y, *mean, *rstd;
};

// Of row r, whose elements from i on x(i, term) gives; they are asked for three times.
template <int width, typename Row, typename Elements>
SLUICE_INLINE void NormalizeRow(const Row& row, const Rows& rows, int64_t r,
                                const NormOperands& norm, const Elements& x) {
  const float count = static_cast<float>(rows.length);
  const float center = row.template Sum<width>(rows, x) / count;
  const float squares = row.template Sum<width>(rows, [&](int64_t i, auto& term) {
    x(i, term);
    for (float& e : term) e = (e - center) * (e - center);
  });
  const float scale = 1 / sqrtf(squares / count + norm.epsilon);
  float* const y = norm.y + r * rows.length;
  row.template ForEach<width>(rows, [&]<int n>(int64_t i, Count<n>) {
    float a[n], factor[n], shift[n];
    x(i, a);
    Load(norm.gamma + i, factor);
    Load(norm.beta + i, shift);
    for (int e = 0; e < n; ++e) a[e] = fmaf((a[e] - center) * scale, factor[e], shift[e]);
    Store(a, y + i);
  });
  if (row.IsFirst()) {
    norm.mean[r] = center;
    norm.rstd[r] = scale;
  }
}

template <typename Row>
__global__ void __launch_bounds__(kRowThreads)
    LayerNormRows(Rows rows, const float* x, NormOperands norm) {
  const Row row;
  const int64_t r = row.index();
  if (r >= rows.count) return;
  x += r * rows.length;
  NormalizeRow<kWidth>(row, rows, r, norm, [=](int64_t i, auto& term) { Load(x + i, term); });
}

// Of a + b, which is added anew for each pass: the row is in the cache then, and what another
// thread has stored could be read behind a barrier alone.
template <typename Row>
__global__ void __launch_bounds__(kRowThreads)
    AddLayerNormRows(Rows rows, const float* a, const float* b, float* sum, NormOperands norm) {
  const Row row;
  const int64_t r = row.index();
  if (r >= rows.count) return;
  a += r * rows.length, b += r * rows.length, sum += r * rows.length;
  const auto added = [=]<int n>(int64_t i, float(&term)[n]) {
    float other[n];
    Load(a + i, term);
    Load(b + i, other);
    for (int e = 0; e < n; ++e) term[e] = term[e] + other[e];
  };
  row.template ForEach<kWidth>(rows, [&]<int n>(int64_t i, Count<n>) {
    float term[n];
    added(i, term);
    Store(term, sum + i);
  });
  NormalizeRow<kWidth>(row, rows, r, norm, added);
}

// What threads of a row have stored, the others may read behind it.
__device__ inline void Meet(const WarpRow&) { __syncwarp(); }
__device__ inline void Meet(const BlockRow&) { __syncthreads(); }

// Of a row's elements, whose logical indices are consecutive, from where they begin.
struct RowDropout {
  DropoutRule rule;
  int64_t first;
  StridedIndex<1> rows;
};

// Of a + dropout(b), whose draws cost more than to read the sum again, behind a barrier.
template <typename T, typename Row>
__global__ void __launch_bounds__(kRowThreads)
    AddDroppedLayerNormRows(Rows rows, const float* a, const T* b, float* sum, RowDropout dropout,
                            NormOperands norm) {
  const Row row;
  const int64_t r = row.index();
  if (r >= rows.count) return;
  a += r * rows.length, b += r * rows.length, sum += r * rows.length;
  const int64_t index = dropout.first + OffsetOf(dropout.rows, r, 0);
  row.template ForEach<kPack<T>>(rows, [&]<int n>(int64_t i, Count<n>) {
    float term[n], other[n];
    Load(a + i, term);
    Load(b + i, other);
    DropElements(dropout.rule, index + i, other);
    for (int e = 0; e < n; ++e) term[e] = term[e] + Rounded<T>(other[e]);
    Store(term, sum + i);
  });
  Meet(row);
  NormalizeRow<kPack<T>>(row, rows, r, norm, [=](int64_t i, auto& term) { Load(sum + i, term); });
}

// So many elements of a row: what their slopes are before the row's means are taken off, and where
// x lies in its row's distribution.
template <int n>
struct NormSlopes {
  float slope[n], normal[n];

  __device__ NormSlopes(const float* dy, const float* x, const float* gamma, float center,
                        float scale) {
    float factor[n];
    Load(dy, slope);
    Load(x, normal);
    Load(gamma, factor);
    for (int e = 0; e < n; ++e) {
      slope[e] = slope[e] * factor[e];
      normal[e] = (normal[e] - center) * scale;
    }
  }
};

// What the gradient of layer norm reads.
struct NormGradientOperands {
  const float *dy, *x, *gamma, *mean, *rstd;
};

// Of row r: use(i, dx) has the elements from i on.
template <int width, typename Row, typename Use>
SLUICE_INLINE void NormGradientOfRow(const Row& row, const Rows& rows, int64_t r,
                                     const NormGradientOperands& norm, const Use& use) {
  const float *const dy = norm.dy + r * rows.length, *const x = norm.x + r * rows.length;
  const float center = norm.mean[r], scale = norm.rstd[r];
  const float count = static_cast<float>(rows.length);
  const float sum = row.template Sum<width>(rows, [&]<int n>(int64_t i, float(&term)[n]) {
    float factor[n];
    Load(dy + i, term);
    Load(norm.gamma + i, factor);
    for (int e = 0; e < n; ++e) term[e] = term[e] * factor[e];
  });
  const float dot = row.template Sum<width>(rows, [&]<int n>(int64_t i, float(&term)[n]) {
    const NormSlopes<n> of(dy + i, x + i, norm.gamma + i, center, scale);
    for (int e = 0; e < n; ++e) term[e] = of.slope[e] * of.normal[e];
  });
  const float mean_slope = sum / count, mean_dot = dot / count;
  row.template ForEach<width>(rows, [&]<int n>(int64_t i, Count<n>) {
    const NormSlopes<n> of(dy + i, x + i, norm.gamma + i, center, scale);
    float dx[n];
    for (int e = 0; e < n; ++e) {
      dx[e] = scale * (of.slope[e] - mean_slope - of.normal[e] * mean_dot);
    }
    use(i, dx);
  });
}

template <typename Row>
__global__ void __launch_bounds__(kRowThreads)
    LayerNormGradientRows(Rows rows, NormGradientOperands norm, float* dx) {
  const Row row;
  const int64_t r = row.index();
  if (r >= rows.count) return;
  dx += r * rows.length;
  NormGradientOfRow<kWidth>(row, rows, r, norm,
                            [=](int64_t i, const auto& a) { Store(a, dx + i); });
}

template <typename Row>
__global__ void __launch_bounds__(kRowThreads)
    LayerNormGradientAddRows(Rows rows, NormGradientOperands norm, const float* other, float* dx) {
  const Row row;
  const int64_t r = row.index();
  if (r >= rows.count) return;
  other += r * rows.length, dx += r * rows.length;
  NormGradientOfRow<kWidth>(row, rows, r, norm, [=]<int n>(int64_t i, const float(&a)[n]) {
    float sum[n];
    Load(other + i, sum);
    for (int e = 0; e < n; ++e) sum[e] = sum[e] + a[e];
    Store(sum, dx + i);
  });
}

template <typename T, typename Row>
__global__ void __launch_bounds__(kRowThreads)
    LayerNormGradientAddDropoutRows(Rows rows, NormGradientOperands norm, const float* other,
                                    float* dx, RowDropout dropout, T* dropped) {
  const Row row;
  const int64_t r = row.index();
  if (r >= rows.count) return;
  other += r * rows.length, dx += r * rows.length, dropped += r * rows.length;
  const int64_t index = dropout.first + OffsetOf(dropout.rows, r, 0);
  NormGradientOfRow<kPack<T>>(row, rows, r, norm, [=]<int n>(int64_t i, const float(&a)[n]) {
    float sum[n];
    Load(other + i, sum);
    for (int e = 0; e < n; ++e) sum[e] = sum[e] + a[e];
    Store(sum, dx + i);
    for (int e = 0; e < n; ++e) sum[e] = Rounded<T>(sum[e]);
    DropElements(dropout.rule, index + i, sum);
    Store(sum, dropped + i);
  });
}

// Sums of parts of the rows, [parts, 2, width].
__global__ void __launch_bounds__(kColumnThreads)
    ParameterGradientSums(const float* dy, const float* x, const float* mean, const float* rstd,
                          float* sums, int64_t rows, int64_t rows_of_part, int64_t width) {
  const ColumnBlock block(width);
  const int64_t begin = block.part * rows_of_part;
  const int64_t end = begin + rows_of_part < rows ? begin + rows_of_part : rows;
  float total[2];
  block.FoldRows<SumFold>(
      begin, end,
      [&](int64_t r, float(&sum)[2]) {
        const int64_t i = r * width + block.column;
        const float slope = dy[i];
        sum[0] = fmaf(slope, (x[i] - mean[r]) * rstd[r], sum[0]);
        sum[1] = sum[1] + slope;
      },
      total);
  if (WarpOfBlock() != 0 || !block.valid) return;
  float* const to = sums + block.part * 2 * width + block.column;
  to[0] = total[0];
  to[width] = total[1];
}

__global__ void __launch_bounds__(256)
    AddParameterGradients(const float* sums, int64_t parts, float* dgamma, float* dbeta,
                          int64_t width) {
  const int64_t c = ThreadIndex();
  if (c >= width) return;
  float gamma = 0, beta = 0;
  for (int64_t part = 0; part < parts; ++part) {
    gamma = gamma + sums[part * 2 * width + c];
    beta = beta + sums[(part * 2 + 1) * width + c];
  }
  dgamma[c] = gamma;
  dbeta[c] = beta;
}

// The dropout of a tensor by rows, at each firing. Rows are whole: what a row begins with is found
// by the other dimensions.
class PlannedDropout {
 public:
  PlannedDropout(const Shard& shard, double rate, int64_t key) : rate_(rate), key_(key) {
    const Shape logical = shard.logical.Strides();
    Shape extent, strides;
    for (int d = 0; d + 1 < shard.local.rank(); ++d) {
      extent.Append(shard.local[d]), strides.Append(logical[d]);
      first_ += shard.offset[d] * logical[d];
      per_micro_ += shard.stride_per_micro[d] * logical[d];
    }
    if (extent.rank() == 0) extent.Append(1), strides.Append(0);
    rows_ = IndexOf<1>(StridedExtent(extent, {strides}));
  }
  RowDropout At(const KernelContext& context) const {
    return {{DrawOf(context, key_), DropoutThreshold(rate_), static_cast<float>(1 / (1 - rate_))},
            first_ + context.micro * per_micro_,
            rows_};
  }

 private:
  double rate_;
  int64_t key_, first_ = 0, per_micro_ = 0;
  StridedIndex<1> rows_;
};

PreparedKernel PrepareAddDroppedLayerNorm(const KernelSpec& spec,
                                          const AddNormAttributes& attributes) {
  const Shard& b = spec.inputs[1];
  const int64_t rows = NumRows(b.local), width = RowLength(b.local);
  const float epsilon = static_cast<float>(attributes.epsilon);
  const PlannedDropout dropout(b, attributes.rate, attributes.key);
  return OfFloat(spec, b.dtype, [&]<typename T>(T) {
    return MakeKernel([=](const KernelContext& context, const Operands& at) {
      const float* const a = at.at(0);
      const T* const dropped = at.at<T>(1);
      float* const sum = at.at(7);
      const NormOperands norm = {at.at(2), at.at(3), epsilon, at.at(4), at.at(5), at.at(6)};
      return LaunchRows(context,
                        RowsOf<T>(rows, width, a, dropped, sum, norm.gamma, norm.beta, norm.y),
                        AddDroppedLayerNormRows<T, WarpRow>, AddDroppedLayerNormRows<T, BlockRow>,
                        a, dropped, sum, dropout.At(context), norm);
    });
  });
}

// The first five inputs.
NormGradientOperands NormGradientAt(const Operands& at) {
  return {at.at(0), at.at(1), at.at(2), at.at(3), at.at(4)};
}

}  // namespace

PreparedKernel PrepareLayerNorm(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32(spec));
  ASSIGN_OR_RETURN(const NormAttributes attributes,
                   ParseAttributes<NormAttributes>(spec.attributes));
  const int64_t rows = NumRows(spec.inputs[0].local), width = RowLength(spec.inputs[0].local);
  const float epsilon = static_cast<float>(attributes.epsilon);
  return MakeKernel([rows, width, epsilon](const KernelContext& context, const Operands& at) {
    const float* const x = at.at(0);
    const NormOperands norm = {at.at(1), at.at(2), epsilon, at.at(3), at.at(4), at.at(5)};
    return LaunchRows(context, RowsOf<float>(rows, width, x, norm.gamma, norm.beta, norm.y),
                      LayerNormRows<WarpRow>, LayerNormRows<BlockRow>, x, norm);
  });
}

PreparedKernel PrepareAddLayerNorm(const KernelSpec& spec) {
  const DType dtype = spec.inputs[1].dtype;
  std::vector<DType> types(8, DType::kF32);
  types[1] = dtype;
  RETURN_IF_ERROR(RequireTypes(spec, types));
  ASSIGN_OR_RETURN(const AddNormAttributes attributes,
                   ParseAttributes<AddNormAttributes>(spec.attributes));
  const int64_t rows = NumRows(spec.inputs[0].local), width = RowLength(spec.inputs[0].local);
  const float epsilon = static_cast<float>(attributes.epsilon);
  if (attributes.rate > 0 || dtype != DType::kF32) {
    return PrepareAddDroppedLayerNorm(spec, attributes);
  }
  return MakeKernel([rows, width, epsilon](const KernelContext& context, const Operands& at) {
    const float *const a = at.at(0), *const b = at.at(1);
    float* const sum = at.at(7);
    const NormOperands norm = {at.at(2), at.at(3), epsilon, at.at(4), at.at(5), at.at(6)};
    return LaunchRows(context, RowsOf<float>(rows, width, a, b, sum, norm.gamma, norm.beta, norm.y),
                      AddLayerNormRows<WarpRow>, AddLayerNormRows<BlockRow>, a, b, sum, norm);
  });
}

PreparedKernel PrepareLayerNormGradient(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32(spec));
  const int64_t rows = NumRows(spec.inputs[0].local), width = RowLength(spec.inputs[0].local);
  return MakeKernel([rows, width](const KernelContext& context, const Operands& at) {
    const NormGradientOperands norm = NormGradientAt(at);
    float* const dx = at.at(5);
    return LaunchRows(context, RowsOf<float>(rows, width, norm.dy, norm.x, norm.gamma, dx),
                      LayerNormGradientRows<WarpRow>, LayerNormGradientRows<BlockRow>, norm, dx);
  });
}

PreparedKernel PrepareLayerNormGradientAdd(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32(spec));
  const int64_t rows = NumRows(spec.inputs[0].local), width = RowLength(spec.inputs[0].local);
  return MakeKernel([rows, width](const KernelContext& context, const Operands& at) {
    const NormGradientOperands norm = NormGradientAt(at);
    const float* const other = at.at(5);
    float* const dx = at.at(6);
    return LaunchRows(context, RowsOf<float>(rows, width, norm.dy, norm.x, norm.gamma, other, dx),
                      LayerNormGradientAddRows<WarpRow>, LayerNormGradientAddRows<BlockRow>, norm,
                      other, dx);
  });
}

// Of both ops that drop: what is made says whether the sum is cast.
PreparedKernel PrepareLayerNormGradientAddDropout(const KernelSpec& spec) {
  const DType dtype = spec.outputs[1].dtype;
  std::vector<DType> types(8, DType::kF32);
  types[7] = dtype;
  RETURN_IF_ERROR(RequireTypes(spec, types));
  ASSIGN_OR_RETURN(const AddNormAttributes attributes,
                   ParseAttributes<AddNormAttributes>(spec.attributes));
  const Shard& dx = spec.outputs[0];
  const int64_t rows = NumRows(dx.local), width = RowLength(dx.local);
  const PlannedDropout dropout(dx, attributes.rate, attributes.key);
  return OfFloat(spec, dtype, [&]<typename T>(T) {
    return MakeKernel([=](const KernelContext& context, const Operands& at) {
      const NormGradientOperands norm = NormGradientAt(at);
      const float* const other = at.at(5);
      float* const sum = at.at(6);
      T* const dropped = at.at<T>(7);
      return LaunchRows(
          context, RowsOf<T>(rows, width, norm.dy, norm.x, norm.gamma, other, sum, dropped),
          LayerNormGradientAddDropoutRows<T, WarpRow>, LayerNormGradientAddDropoutRows<T, BlockRow>,
          norm, other, sum, dropout.At(context), dropped);
    });
  });
}

// A part of the rows for each sum that the op's bound has room for. Where that is one for each
// group of rows, as up to 4,096 of them, the bits are the CPU's.
PreparedKernel PrepareLayerNormParameterGradient(const KernelSpec& spec) {
  constexpr int64_t kMostParts = 64;
  RETURN_IF_ERROR(RequireF32(spec));
  const int64_t rows = NumRows(spec.inputs[0].local), width = RowLength(spec.inputs[0].local);
  const int64_t groups = std::max<int64_t>(1, (rows + kGroupRows - 1) / kGroupRows);
  const int64_t rows_of_part = (groups + kMostParts - 1) / kMostParts * kGroupRows;
  const int64_t parts = std::max<int64_t>(1, (rows + rows_of_part - 1) / rows_of_part);
  return MakeKernel(
      [=](const KernelContext& context, const Operands& at) -> absl::Status {
        if (width == 0) return absl::OkStatus();
        float* const sums = at.scratch<float>();
        RETURN_IF_ERROR(Launch(context, ParameterGradientSums,
                               ColumnBlock::GridOf(width, parts, rows_of_part, 2), at.at(0),
                               at.at(1), at.at(2), at.at(3), sums, rows, rows_of_part, width));
        return Launch(context, AddParameterGradients, GridOf(width), sums, parts, at.at(4),
                      at.at(5), width);
      },
      parts * 2 * width * 4);
}

}  // namespace sluice::cuda
