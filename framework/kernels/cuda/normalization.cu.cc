// Layer normalization over the last dimension, with the bits of the CPU.
#include "framework/kernels/cuda/all_kernels.h"
#include "framework/kernels/cuda/columns.h"

namespace sluice::cuda {
namespace {

// What layer norm takes besides its rows, and what it makes.
struct NormOperands {
  const float *gamma, *beta;
  float epsilon;
  float *y, *mean, *rstd;
};

// Of row r, whose elements are x(i), asked for three times.
template <typename Row, typename Element>
SLUICE_INLINE void NormalizeRow(const Row& row, int64_t r, int64_t width, const NormOperands& norm,
                                const Element& x) {
  const float count = static_cast<float>(width);
  const float center = row.Sum(width, x) / count;
  const float squares = row.Sum(width, [&](int64_t i) {
    const float d = x(i) - center;
    return d * d;
  });
  const float scale = 1 / sqrtf(squares / count + norm.epsilon);
  float* const y = norm.y + r * width;
  row.ForEach(
      width, [&](int64_t i) { y[i] = fmaf((x(i) - center) * scale, norm.gamma[i], norm.beta[i]); });
  if (row.IsFirst()) {
    norm.mean[r] = center;
    norm.rstd[r] = scale;
  }
}

template <typename Row>
__global__ void __launch_bounds__(kRowThreads)
    LayerNormRows(const float* x, NormOperands norm, int64_t rows, int64_t width) {
  const Row row;
  const int64_t r = row.index();
  if (r >= rows) return;
  x += r * width;
  NormalizeRow(row, r, width, norm, [=](int64_t i) { return x[i]; });
}

// Of a + b, which is added anew for each pass: the row is in the cache then, and what another
// thread has stored could be read behind a barrier alone.
template <typename Row>
__global__ void __launch_bounds__(kRowThreads)
    AddLayerNormRows(const float* a, const float* b, float* sum, NormOperands norm, int64_t rows,
                     int64_t width) {
  const Row row;
  const int64_t r = row.index();
  if (r >= rows) return;
  a += r * width, b += r * width, sum += r * width;
  row.ForEach(width, [=](int64_t i) { sum[i] = a[i] + b[i]; });
  NormalizeRow(row, r, width, norm, [=](int64_t i) { return a[i] + b[i]; });
}

template <typename Row>
__global__ void __launch_bounds__(kRowThreads)
    LayerNormGradientRows(const float* dy, const float* x, const float* gamma, const float* mean,
                          const float* rstd, float* dx, int64_t rows, int64_t width) {
  const Row row;
  const int64_t r = row.index();
  if (r >= rows) return;
  x += r * width, dy += r * width, dx += r * width;
  const float center = mean[r], scale = rstd[r], count = static_cast<float>(width);
  const float sum = row.Sum(width, [&](int64_t i) { return dy[i] * gamma[i]; });
  const float dot =
      row.Sum(width, [&](int64_t i) { return dy[i] * gamma[i] * ((x[i] - center) * scale); });
  const float mean_slope = sum / count, mean_dot = dot / count;
  row.ForEach(width, [&](int64_t i) {
    const float normal = (x[i] - center) * scale, slope = dy[i] * gamma[i];
    dx[i] = scale * (slope - mean_slope - normal * mean_dot);
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

}  // namespace

PreparedKernel PrepareLayerNorm(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32(spec));
  ASSIGN_OR_RETURN(const NormAttributes attributes,
                   ParseAttributes<NormAttributes>(spec.attributes));
  const int64_t rows = NumRows(spec.inputs[0].local), width = RowLength(spec.inputs[0].local);
  const float epsilon = static_cast<float>(attributes.epsilon);
  return MakeKernel([rows, width, epsilon](const KernelContext& context, const Operands& at) {
    const NormOperands norm = {at.at(1), at.at(2), epsilon, at.at(3), at.at(4), at.at(5)};
    return LaunchRows(context, rows, width, LayerNormRows<WarpRow>, LayerNormRows<BlockRow>,
                      at.at(0), norm, rows, width);
  });
}

PreparedKernel PrepareAddLayerNorm(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32(spec));
  ASSIGN_OR_RETURN(const NormAttributes attributes,
                   ParseAttributes<NormAttributes>(spec.attributes));
  const int64_t rows = NumRows(spec.inputs[0].local), width = RowLength(spec.inputs[0].local);
  const float epsilon = static_cast<float>(attributes.epsilon);
  return MakeKernel([rows, width, epsilon](const KernelContext& context, const Operands& at) {
    const NormOperands norm = {at.at(2), at.at(3), epsilon, at.at(4), at.at(5), at.at(6)};
    return LaunchRows(context, rows, width, AddLayerNormRows<WarpRow>, AddLayerNormRows<BlockRow>,
                      at.at(0), at.at(1), at.at(7), norm, rows, width);
  });
}

PreparedKernel PrepareLayerNormGradient(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32(spec));
  const int64_t rows = NumRows(spec.inputs[0].local), width = RowLength(spec.inputs[0].local);
  return MakeKernel([rows, width](const KernelContext& context, const Operands& at) {
    return LaunchRows(context, rows, width, LayerNormGradientRows<WarpRow>,
                      LayerNormGradientRows<BlockRow>, at.at(0), at.at(1), at.at(2), at.at(3),
                      at.at(4), at.at(5), rows, width);
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
