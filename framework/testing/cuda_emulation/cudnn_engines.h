// Which engines the emulated cuDNN offers for a graph. For what is in the table of answers that the
// library gave (framework/kernels/cuda/testdata/cudnn_support.txt) it gives these: engine,
// workspace, how many ways. For other shapes it follows what the table has in common. Before those
// of the table it offers one that no caller of ours may choose: whose sums have another order each
// time, or, for f32, which multiplies what it has rounded.
#ifndef SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_CUDNN_ENGINES_H_
#define SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_CUDNN_ENGINES_H_

#include <vector>

#include "framework/testing/cuda_emulation/cudnn_descriptor.h"

namespace sluice::cuda_emulation {

// For a heuristic's graph, device and mode. Refused with NOT_SUPPORTED where nothing runs it.
CudnnRefusal ChooseCudnnEngines(const CudnnDescriptorData& heuristic,
                                std::vector<CudnnEngineChoice>* choices);

// Compute capability of a handle's device, 90 for 9.0. REQUIRES: the handle is live.
int CapabilityOfCudnnHandle(cudnnHandle_t handle);

}  // namespace sluice::cuda_emulation

#endif  // SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_CUDNN_ENGINES_H_
