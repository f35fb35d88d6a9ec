// Weights of convolutions as cuDNN wants them: ours lie [height, width, in, out], its [out, height,
// width, in], so each is the other's transpose, as matrices of out and the rest.
#ifndef SLUICE_FRAMEWORK_KERNELS_CUDA_CUDNN_WEIGHTS_H_
#define SLUICE_FRAMEWORK_KERNELS_CUDA_CUDNN_WEIGHTS_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "framework/kernels/kernel.h"

namespace sluice::cuda {

// [depth, out] to [out, depth], of f32 or bf16.
absl::Status WeightsForCudnn(const KernelContext& context, int64_t depth, int64_t out, DType dtype,
                             const std::byte* weights, std::byte* turned);

// A gradient of weights [out, depth], of f32 or bf16, to [depth, out] of f32.
absl::Status WeightsOfCudnn(const KernelContext& context, int64_t depth, int64_t out, DType dtype,
                            const std::byte* turned, std::byte* weights);

}  // namespace sluice::cuda

#endif  // SLUICE_FRAMEWORK_KERNELS_CUDA_CUDNN_WEIGHTS_H_
