#include "framework/device/cuda_operand_watch.h"

namespace sluice {
namespace {

// Constant-initialized: the emulation sets it while statics are made, in whatever order.
constinit CudaOperandWatch operand_watch = nullptr;

}  // namespace

void SetCudaOperandWatch(CudaOperandWatch watch) { operand_watch = watch; }

void WatchCudaOperands(CUstream_st* stream, absl::Span<const CudaOperand> operands) {
  if (operand_watch != nullptr) operand_watch(stream, operands);
}

}  // namespace sluice
