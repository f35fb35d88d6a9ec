// What cuDNN checks when a descriptor is finalized. Where a rule is the library's, its answer was
// asked for without a GPU (framework/kernels/cuda/cudnn_rules_test.cc asks both again); where the
// library takes what it then reads nonsense of, the emulation refuses it: that is our mistake, too.
#ifndef SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_CUDNN_RULES_H_
#define SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_CUDNN_RULES_H_

#include "framework/testing/cuda_emulation/cudnn_descriptor.h"

namespace sluice::cuda_emulation {

CudnnRefusal CheckCudnnDescriptor(const CudnnDescriptorData& descriptor);

}  // namespace sluice::cuda_emulation

#endif  // SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_CUDNN_RULES_H_
