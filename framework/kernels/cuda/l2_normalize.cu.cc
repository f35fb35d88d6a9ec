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
    NormalizeRows(Rows rows, const T* x, float epsilon, T* y, float* lengths) {
  constexpr int kWidth = kPack<T>;
  const Row row;
  const int64_t r = row.index();
  if (r >= rows.count) return;
  x += r * rows.length, y += r * rows.length;
  const float length = sqrtf(row.template Sum<kWidth>(rows, [&](int64_t i, auto& term) {
    Load(x + i, term);
    for (float& e : term) e = e * e;
  }));
  const float divisor = DivisorOf(length, epsilon);
  row.template ForEach<kWidth>(rows, [&]<int count>(int64_t i, Count<count>) {
    float a[count];
    Load(x + i, a);
    for (float& e : a) e = e / divisor;
    Store(a, y + i);
  });
  if (row.IsFirst()) lengths[r] = length;
}

// The part of dy along the row is taken off, but where the row was divided by epsilon.
template <typename Row, typename T>
__global__ void __launch_bounds__(kRowThreads)
    NormalizeGradientRows(Rows rows, const T* x, const float* lengths, float epsilon, const T* dy,
                          T* dx) {
  constexpr int kWidth = kPack<T>;
  const Row row;
  const int64_t r = row.index();
  if (r >= rows.count) return;
  x += r * rows.length, dy += r * rows.length, dx += r * rows.length;
  const float length = lengths[r], divisor = DivisorOf(length, epsilon);
  const float dot = row.template Sum<kWidth>(rows, [&]<int count>(int64_t i, float(&term)[count]) {
    float a[count];
    Load(dy + i, term);
    Load(x + i, a);
    for (int e = 0; e < count; ++e) term[e] = term[e] * a[e];
  });
  const float along = length < epsilon ? 0 : dot / divisor / divisor;
  row.template ForEach<kWidth>(rows, [&]<int count>(int64_t i, Count<count>) {
    float slope[count], a[count];
    Load(dy + i, slope);
    Load(x + i, a);
    for (int e = 0; e < count; ++e) slope[e] = (slope[e] - a[e] * along) / divisor;
    Store(slope, dx + i);
  });
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
      const T* const x = at.at<T>(0);
      T* const y = at.at<T>(1);
      return LaunchRows(context, RowsOf<T>(rows, width, x, y), NormalizeRows<WarpRow, T>,
                        NormalizeRows<BlockRow, T>, x, epsilon, y, at.at(2));
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
      const T *const x = at.at<T>(0), *const dy = at.at<T>(2);
      T* const dx = at.at<T>(3);
      return LaunchRows(context, RowsOf<T>(rows, width, x, dy, dx),
                        NormalizeGradientRows<WarpRow, T>, NormalizeGradientRows<BlockRow, T>, x,
                        at.at(1), epsilon, dy, dx);
    });
  });
}

}  // namespace sluice::cuda
