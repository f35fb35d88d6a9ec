// Softmax over the last dimension, and its gradient, with the bits of the CPU.
#include "framework/kernels/cuda/all_kernels.h"
#include "framework/kernels/cuda/block.h"

namespace sluice::cuda {
namespace {

// Exponentials are computed twice: they would be rounded to T where they are stored in between, and
// a row that is read again comes from the nearest cache. y may take the place of x.
template <typename Row, typename T>
__global__ void __launch_bounds__(kRowThreads)
    SoftmaxRows(const T* x, T* y, int64_t rows, int64_t width) {
  const Row row;
  if (row.index() >= rows) return;
  x += row.index() * width;
  y += row.index() * width;
  const float max = row.template Folded<MaxFold>(width, [&](int64_t i) { return Widen(x[i]); });
  const float sum = row.Sum(width, [&](int64_t i) { return Exp(Widen(x[i]) - max); });
  const float factor = 1 / sum;
  row.ForEach(width,
              [&](int64_t i) { Narrow(Rounded<T>(Exp(Widen(x[i]) - max)) * factor, y + i); });
}

template <typename Row, typename T>
__global__ void __launch_bounds__(kRowThreads)
    SoftmaxGradientRows(const T* y, const T* dy, T* dx, int64_t rows, int64_t width) {
  const Row row;
  if (row.index() >= rows) return;
  const int64_t first = row.index() * width;
  y += first, dy += first, dx += first;
  const float dot = row.Sum(width, [&](int64_t i) { return Widen(y[i]) * Widen(dy[i]); });
  row.ForEach(width, [&](int64_t i) { Narrow(Widen(y[i]) * (Widen(dy[i]) - dot), dx + i); });
}

}  // namespace

PreparedKernel PrepareSoftmax(const KernelSpec& spec) {
  const DType dtype = spec.inputs[0].dtype;
  RETURN_IF_ERROR(RequireAll(spec, dtype));
  const int64_t rows = NumRows(spec.inputs[0].local), width = RowLength(spec.inputs[0].local);
  return OfFloat(spec, dtype, [&]<typename T>(T) {
    return MakeKernel([rows, width](const KernelContext& context, const Operands& at) {
      return LaunchRows(context, rows, width, SoftmaxRows<WarpRow, T>, SoftmaxRows<BlockRow, T>,
                        at.at<T>(0), at.at<T>(1), rows, width);
    });
  });
}

PreparedKernel PrepareSoftmaxGradient(const KernelSpec& spec) {
  const DType dtype = spec.inputs[0].dtype;
  RETURN_IF_ERROR(RequireAll(spec, dtype));
  const int64_t rows = NumRows(spec.inputs[0].local), width = RowLength(spec.inputs[0].local);
  return OfFloat(spec, dtype, [&]<typename T>(T) {
    return MakeKernel([rows, width](const KernelContext& context, const Operands& at) {
      return LaunchRows(context, rows, width, SoftmaxGradientRows<WarpRow, T>,
                        SoftmaxGradientRows<BlockRow, T>, at.at<T>(0), at.at<T>(1), at.at<T>(2),
                        rows, width);
    });
  });
}

}  // namespace sluice::cuda
