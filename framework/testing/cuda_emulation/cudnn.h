// What tests may say to the emulated cuDNN beyond its own functions.
#ifndef SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_CUDNN_H_
#define SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_CUDNN_H_

namespace sluice::cuda_emulation {

// Whether handles can be made: if not, it is as on a machine that lacks the library. They can, from
// the start. While no other thread calls it.
void SetCudnnWorks(bool works);

}  // namespace sluice::cuda_emulation

#endif  // SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_CUDNN_H_
