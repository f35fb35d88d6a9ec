// Rows divided by their length, with the bits of the CPU.
#include "framework/kernels/cuda/all_kernels.h"
#include "framework/kernels/cuda/block.h"

namespace sluice::cuda {
namespace {

// What a row is divided by; NaN stays NaN.
__device__ float DivisorOf(float length, float epsilon) {
  return length < epsilon ? epsilon : length;
}

template <typename Row, typename T>
__global__ void __launch_bounds__(kRowThreads)
    NormalizeRows(const T* x, float epsilon, T* y, float* lengths, int64_t rows, int64_t width) {
  const Row row;
  const int64_t r = row.index();
  if (r >= rows) return;
  x += r * width, y += r * width;
  const float length = sqrtf(row.Sum(width, [&](int64_t i) { return Widen(x[i]) * Widen(x[i]); }));
  const float divisor = DivisorOf(length, epsilon);
  row.ForEach(width, [&](int64_t i) { Narrow(Widen(x[i]) / divisor, y + i); });
  if (row.IsFirst()) lengths[r] = length;
}

// The part of dy along the row is taken off, but where the row was divided by epsilon.
template <typename Row, typename T>
__global__ void __launch_bounds__(kRowThreads)
    NormalizeGradientRows(const T* x, const float* lengths, float epsilon, const T* dy, T* dx,
                          int64_t rows, int64_t width) {
  const Row row;
  const int64_t r = row.index();
  if (r >= rows) return;
  x += r * width, dy += r * width, dx += r * width;
  const float length = lengths[r], divisor = DivisorOf(length, epsilon);
  const float dot = row.Sum(width, [&](int64_t i) { return Widen(dy[i]) * Widen(x[i]); });
  const float along = length < epsilon ? 0 : dot / divisor / divisor;
  row.ForEach(width,
              [&](int64_t i) { Narrow((Widen(dy[i]) - Widen(x[i]) * along) / divisor, dx + i); });
}

}  // namespace

// x; y, length.
PreparedKernel PrepareL2Normalize(const KernelSpec& spec) {
  const DType dtype = spec.inputs[0].dtype;
  RETURN_IF_ERROR(RequireTypes(spec, {dtype, dtype, DType::kF32}));
  ASSIGN_OR_RETURN(const NormAttributes attributes,
                   ParseAttributes<NormAttributes>(spec.attributes));
  const int64_t rows = NumRows(spec.inputs[0].local), width = RowLength(spec.inputs[0].local);
  const float epsilon = static_cast<float>(attributes.epsilon);
  return OfFloat(spec, dtype, [&]<typename T>(T) {
    return MakeKernel([rows, width, epsilon](const KernelContext& context, const Operands& at) {
      return LaunchRows(context, rows, width, NormalizeRows<WarpRow, T>, NormalizeRows<BlockRow, T>,
                        at.at<T>(0), epsilon, at.at<T>(1), at.at(2), rows, width);
    });
  });
}

// x, length, dy; dx.
PreparedKernel PrepareL2NormalizeGradient(const KernelSpec& spec) {
  const DType dtype = spec.inputs[0].dtype;
  RETURN_IF_ERROR(RequireTypes(spec, {dtype, DType::kF32, dtype, dtype}));
  ASSIGN_OR_RETURN(const NormAttributes attributes,
                   ParseAttributes<NormAttributes>(spec.attributes));
  const int64_t rows = NumRows(spec.inputs[0].local), width = RowLength(spec.inputs[0].local);
  const float epsilon = static_cast<float>(attributes.epsilon);
  return OfFloat(spec, dtype, [&]<typename T>(T) {
    return MakeKernel([rows, width, epsilon](const KernelContext& context, const Operands& at) {
      return LaunchRows(context, rows, width, NormalizeGradientRows<WarpRow, T>,
                        NormalizeGradientRows<BlockRow, T>, at.at<T>(0), at.at(1), epsilon,
                        at.at<T>(2), at.at<T>(3), rows, width);
    });
  });
}

}  // namespace sluice::cuda
