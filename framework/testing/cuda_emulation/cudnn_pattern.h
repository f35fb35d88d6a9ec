// Graphs that the engines of cuDNN for attention look for.
#ifndef SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_CUDNN_PATTERN_H_
#define SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_CUDNN_PATTERN_H_

#include <optional>
#include <string>

#include "framework/testing/cuda_emulation/cudnn_program.h"

namespace sluice::cuda_emulation {

enum class AttentionDropout { kNone, kMask, kDraws };

struct AttentionPattern {
  bool forward = false, causal = false;
  AttentionDropout dropout = AttentionDropout::kNone;
  cudnnDataType_t type = CUDNN_DATA_BFLOAT16;
  int64_t batch = 0, heads = 0, time = 0, size = 0;
};
// Nothing: its operations are others, or in another order.
std::optional<AttentionPattern> FindAttention(const CudnnProgram& program);

// "deviceVer" of a device's description; 0 if it has none.
int DeviceVersionIn(const std::string& description);

}  // namespace sluice::cuda_emulation

#endif  // SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_CUDNN_PATTERN_H_
