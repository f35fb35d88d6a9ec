// Rows divided by their length.
#include "framework/kernels/cpu/all_kernels.h"
#include "framework/kernels/cpu/vector.h"

namespace sluice::cpu {

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
      ParallelRows(context, rows, width, kCheapGrain, [&](int64_t begin, int64_t end) {
        const int64_t first = begin * width;
        Vectors().of<T>().channel.l2_normalize(at.at<T>(0) + first, epsilon, at.at<T>(1) + first,
                                               at.at(2) + begin, end - begin, width);
      });
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
      ParallelRows(context, rows, width, kCheapGrain, [&](int64_t begin, int64_t end) {
        const int64_t first = begin * width;
        Vectors().of<T>().channel.l2_normalize_gradient(at.at<T>(0) + first, at.at(1) + begin,
                                                        epsilon, at.at<T>(2) + first,
                                                        at.at<T>(3) + first, end - begin, width);
      });
    });
  });
}

}  // namespace sluice::cpu
