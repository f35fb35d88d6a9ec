// Layer normalization over the last dimension.
#include "framework/kernels/cpu/all_kernels.h"
#include "framework/kernels/cpu/vector.h"

namespace sluice::cpu {

PreparedKernel PrepareLayerNorm(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32(spec));
  ASSIGN_OR_RETURN(const NormAttributes attributes,
                   ParseAttributes<NormAttributes>(spec.attributes));
  const int64_t rows = NumRows(spec.inputs[0].local), width = RowLength(spec.inputs[0].local);
  const float epsilon = static_cast<float>(attributes.epsilon);
  return MakeKernel([rows, width, epsilon](const KernelContext& context, const Operands& at) {
    const float *x = at.at(0), *gamma = at.at(1), *beta = at.at(2);
    float *y = at.at(3), *mean = at.at(4), *rstd = at.at(5);
    ParallelRows(context, rows, width, kCostlyGrain, [&](int64_t begin, int64_t end) {
      Vectors().normalization.layer_norm(x + begin * width, gamma, beta, epsilon, y + begin * width,
                                         mean + begin, rstd + begin, end - begin, width);
    });
  });
}

PreparedKernel PrepareLayerNormGradient(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32(spec));
  const int64_t rows = NumRows(spec.inputs[0].local), width = RowLength(spec.inputs[0].local);
  return MakeKernel([rows, width](const KernelContext& context, const Operands& at) {
    const float *dy = at.at(0), *x = at.at(1), *gamma = at.at(2);
    const float *mean = at.at(3), *rstd = at.at(4);
    float* dx = at.at(5);
    ParallelRows(context, rows, width, kCostlyGrain, [&](int64_t begin, int64_t end) {
      const int64_t first = begin * width;
      Vectors().normalization.gradient(dy + first, x + first, gamma, mean + begin, rstd + begin,
                                       dx + first, end - begin, width);
    });
  });
}

// Split by columns: the sum over rows has one order, whatever the number of threads.
PreparedKernel PrepareLayerNormParameterGradient(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32(spec));
  const int64_t rows = NumRows(spec.inputs[0].local), width = RowLength(spec.inputs[0].local);
  return MakeKernel([rows, width](const KernelContext& context, const Operands& at) {
    const float *dy = at.at(0), *x = at.at(1), *mean = at.at(2), *rstd = at.at(3);
    float *dgamma = at.at(4), *dbeta = at.at(5);
    const int64_t grain = std::max<int64_t>(64, kCheapGrain / std::max<int64_t>(rows, 1));
    Parallel(context, width, grain, [&](int64_t begin, int64_t end) {
      Vectors().normalization.parameter_gradient(dy, x, mean, rstd, dgamma, dbeta, rows, width,
                                                 begin, end);
    });
  });
}

}  // namespace sluice::cpu
