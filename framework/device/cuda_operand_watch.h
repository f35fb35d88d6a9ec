// Who is told which memory the launches of each instruction may touch: the emulation of tests,
// which then finds a wrong offset even where it stays inside of the device's arena. On a GPU
// nobody.
#ifndef SLUICE_FRAMEWORK_DEVICE_CUDA_OPERAND_WATCH_H_
#define SLUICE_FRAMEWORK_DEVICE_CUDA_OPERAND_WATCH_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "absl/types/span.h"

namespace sluice {

struct CudaOperand {
  const void* begin;
  int64_t bytes;
  bool written;
};

// What is given to the stream from now on touches these operands alone.
using CudaOperandWatch = void (*)(cudaStream_t stream, absl::Span<const CudaOperand> operands);

// Before any stream is opened.
void SetCudaOperandWatch(CudaOperandWatch watch);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DEVICE_CUDA_OPERAND_WATCH_H_
