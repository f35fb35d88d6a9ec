// Convolutions and their gradients by cuDNN, each prepared for one shape: the graph is made, and
// its engine chosen and built at load, among those that give the same bits in every run and, for
// f32, multiply f32 (CudnnNotesWithout). Same card, version of cuDNN and shape: same engine, on
// every rank, as cuDNN guesses times and nobody measures them.
//
// Weights are turned round for it (cudnn_weights.h): into scratch before, or, of a gradient of
// weights, out of it afterwards. cuDNN makes a gradient of bf16 operands in bf16 alone; it is cast
// to the f32 that it is added up in over micro-batches and devices.
#ifndef SLUICE_FRAMEWORK_KERNELS_CUDA_CUDNN_CONVOLUTION_H_
#define SLUICE_FRAMEWORK_KERNELS_CUDA_CUDNN_CONVOLUTION_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/kernels/convolution_shape.h"
#include "framework/kernels/cuda/cudnn_graph.h"
#include "framework/kernels/cuda/cudnn_handle.h"

namespace sluice::cuda {

class CudnnConvolution {
 public:
  // For the device that is the calling thread's. Unimplemented: cuDNN has no engine for it that
  // does with so many bytes of scratch, or it is not asked, for a window that pads one side more
  // than the other. Other errors are those of CudnnHandle::OfThisDevice, or mistakes of ours.
  // REQUIRES: the shape has elements.
  static absl::StatusOr<std::shared_ptr<const CudnnConvolution>> Prepare(
      ConvolutionPass pass, const ConvolutionShape& shape, int64_t most_scratch);

  CudnnConvolution(ConvolutionPass pass, const ConvolutionShape& shape, CudnnHandle* handle,
                   std::shared_ptr<const CudnnPlan> plan)
      : pass_(pass), shape_(shape), handle_(handle), plan_(std::move(plan)) {}

  // Gives it to the firing's stream. `scratch`: so many bytes, a multiple of 256 from its start.
  absl::Status Run(const KernelContext& context, std::byte* x, std::byte* w, std::byte* y,
                   std::byte* scratch) const;
  int64_t scratch() const;

 private:
  const ConvolutionPass pass_;
  const ConvolutionShape shape_;
  CudnnHandle* const handle_;
  const std::shared_ptr<const CudnnPlan> plan_;
};

}  // namespace sluice::cuda

#endif  // SLUICE_FRAMEWORK_KERNELS_CUDA_CUDNN_CONVOLUTION_H_
