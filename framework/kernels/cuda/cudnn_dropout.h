#ifndef SLUICE_FRAMEWORK_KERNELS_CUDA_CUDNN_DROPOUT_H_
#define SLUICE_FRAMEWORK_KERNELS_CUDA_CUDNN_DROPOUT_H_

namespace sluice::cuda {

// Of the weights of attention.
enum class CudnnDropout {
  kNone,
  kMask,   // by a mask of ours, zeros and ones of the operands' type
  kDraws,  // of cuDNN's own
};

}  // namespace sluice::cuda

#endif  // SLUICE_FRAMEWORK_KERNELS_CUDA_CUDNN_DROPOUT_H_
