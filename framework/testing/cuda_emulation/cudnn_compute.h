// What a graph of the emulated cuDNN computes: plain loops in a fixed order, sums in f32, so that
// bits are the same from run to run and on every processor. Between two operations a tensor is of
// its own type: what is virtual and bf16 is rounded.
#ifndef SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_CUDNN_COMPUTE_H_
#define SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_CUDNN_COMPUTE_H_

#include <map>

#include "framework/testing/cuda_emulation/cudnn_descriptor.h"
#include "framework/testing/cuda_emulation/cudnn_program.h"

namespace sluice::cuda_emulation {

struct CudnnOperands {
  std::map<int64_t, void*> pointers;  // by unique id
  std::map<int64_t, float> numbers;   // by value
};

// REQUIRES: the engine was chosen for the program, and operands has what is not virtual. Engines of
// certain notes compute what their notes say: others bits each time, or of rounded operands.
void ComputeCudnn(const CudnnProgram& program, const CudnnEngineChoice& engine,
                  const CudnnOperands& operands);

}  // namespace sluice::cuda_emulation

#endif  // SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_CUDNN_COMPUTE_H_
