// PReLU, by rows of channels.
#include "framework/kernels/cpu/all_kernels.h"
#include "framework/kernels/cpu/column_sums.h"
#include "framework/kernels/cpu/vector.h"

namespace sluice::cpu {

// x, slope; y.
PreparedKernel PreparePrelu(const KernelSpec& spec) {
  const DType dtype = spec.inputs[0].dtype;
  RETURN_IF_ERROR(RequireTypes(spec, {dtype, DType::kF32, dtype}));
  const int64_t rows = NumRows(spec.inputs[0].local), width = RowLength(spec.inputs[0].local);
  return OfFloat(spec, dtype, [&]<typename T>(T) {
    return MakeKernel([rows, width](const KernelContext& context, const Operands& at) {
      ParallelRows(context, rows, width, kCheapGrain, [&](int64_t begin, int64_t end) {
        const int64_t first = begin * width;
        Vectors().of<T>().channel.prelu(at.at<T>(0) + first, at.at(1), at.at<T>(2) + first,
                                        end - begin, width);
      });
    });
  });
}

// x, slope, dy; dx.
PreparedKernel PreparePreluGradient(const KernelSpec& spec) {
  const DType dtype = spec.inputs[0].dtype;
  RETURN_IF_ERROR(RequireTypes(spec, {dtype, DType::kF32, dtype, dtype}));
  const int64_t rows = NumRows(spec.inputs[0].local), width = RowLength(spec.inputs[0].local);
  return OfFloat(spec, dtype, [&]<typename T>(T) {
    return MakeKernel([rows, width](const KernelContext& context, const Operands& at) {
      ParallelRows(context, rows, width, kCheapGrain, [&](int64_t begin, int64_t end) {
        const int64_t first = begin * width;
        Vectors().of<T>().channel.prelu_gradient(at.at<T>(0) + first, at.at(1), at.at<T>(2) + first,
                                                 at.at<T>(3) + first, end - begin, width);
      });
    });
  });
}

// x, dy; dslope.
PreparedKernel PreparePreluSlopeGradient(const KernelSpec& spec) {
  const DType dtype = spec.inputs[0].dtype;
  RETURN_IF_ERROR(RequireTypes(spec, {dtype, dtype, DType::kF32}));
  const int64_t width = RowLength(spec.inputs[0].local);
  const ColumnSums sums(1, NumRows(spec.inputs[0].local), width, 1);
  return OfFloat(spec, dtype, [&]<typename T>(T) {
    return MakeKernel(
        [sums, width](const KernelContext& context, const Operands& at) {
          const auto of_rows = [&](int64_t, int64_t begin, int64_t end, float* to) {
            Vectors().of<T>().channel.prelu_slope_gradient(
                at.at<T>(0) + begin * width, at.at<T>(1) + begin * width, to, end - begin, width);
          };
          sums.Run(context, at.scratch<float>(), of_rows,
                   [&](int64_t, const float* sum) { std::copy_n(sum, width, at.at(2)); });
        },
        sums.scratch());
  });
}

}  // namespace sluice::cpu
