// Softmax over the last dimension, and its gradient, with the bits of the CPU.
#include "framework/kernels/cuda/all_kernels.h"
#include "framework/kernels/cuda/block.h"

namespace sluice::cuda {
namespace {

// Exponentials are computed twice: they would be rounded to T where they are stored in between, and
// a row that is read again comes from the nearest cache. y may take the place of x.
template <typename Row, typename T>
__global__ void __launch_bounds__(kRowThreads) SoftmaxRows(Rows rows, const T* x, T* y) {
  constexpr int kWidth = kPack<T>;
  const Row row;
  if (row.index() >= rows.count) return;
  x += row.index() * rows.length;
  y += row.index() * rows.length;
  const float max =
      row.template Folded<MaxFold, kWidth>(rows, [&](int64_t i, auto& term) { Load(x + i, term); });
  const float sum = row.template Sum<kWidth>(rows, [&](int64_t i, auto& term) {
    Load(x + i, term);
    for (float& e : term) e = Exp(e - max);
  });
  const float factor = 1 / sum;
  row.template ForEach<kWidth>(rows, [&]<int count>(int64_t i, Count<count>) {
    float a[count];
    Load(x + i, a);
    for (float& e : a) e = Rounded<T>(Exp(e - max)) * factor;
    Store(a, y + i);
  });
}

template <typename Row, typename T>
__global__ void __launch_bounds__(kRowThreads)
    SoftmaxGradientRows(Rows rows, const T* y, const T* dy, T* dx) {
  constexpr int kWidth = kPack<T>;
  const Row row;
  if (row.index() >= rows.count) return;
  const int64_t first = row.index() * rows.length;
  y += first, dy += first, dx += first;
  const float dot = row.template Sum<kWidth>(rows, [&]<int count>(int64_t i, float(&term)[count]) {
    float slope[count];
    Load(y + i, term);
    Load(dy + i, slope);
    for (int e = 0; e < count; ++e) term[e] = term[e] * slope[e];
  });
  row.template ForEach<kWidth>(rows, [&]<int count>(int64_t i, Count<count>) {
    float a[count], slope[count];
    Load(y + i, a);
    Load(dy + i, slope);
    for (int e = 0; e < count; ++e) a[e] = a[e] * (slope[e] - dot);
    Store(a, dx + i);
  });
}

}  // namespace

PreparedKernel PrepareSoftmax(const KernelSpec& spec) {
  const DType dtype = spec.inputs[0].dtype;
  RETURN_IF_ERROR(RequireAll(spec, dtype));
  const int64_t rows = NumRows(spec.inputs[0].local), width = RowLength(spec.inputs[0].local);
  return OfFloat(spec, dtype, [&]<typename T>(T) {
    return MakeKernel([rows, width](const KernelContext& context, const Operands& at) {
      const T* const x = at.at<T>(0);
      T* const y = at.at<T>(1);
      return LaunchRows(context, RowsOf<T>(rows, width, x, y), SoftmaxRows<WarpRow, T>,
                        SoftmaxRows<BlockRow, T>, x, y);
    });
  });
}

PreparedKernel PrepareSoftmaxGradient(const KernelSpec& spec) {
  const DType dtype = spec.inputs[0].dtype;
  RETURN_IF_ERROR(RequireAll(spec, dtype));
  const int64_t rows = NumRows(spec.inputs[0].local), width = RowLength(spec.inputs[0].local);
  return OfFloat(spec, dtype, [&]<typename T>(T) {
    return MakeKernel([rows, width](const KernelContext& context, const Operands& at) {
      const T *const y = at.at<T>(0), *const dy = at.at<T>(1);
      T* const dx = at.at<T>(2);
      return LaunchRows(context, RowsOf<T>(rows, width, y, dy, dx), SoftmaxGradientRows<WarpRow, T>,
                        SoftmaxGradientRows<BlockRow, T>, y, dy, dx);
    });
  });
}

}  // namespace sluice::cuda
