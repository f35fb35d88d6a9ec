// Who is told which memory the launches of each instruction may touch: the emulation of tests,
// which then finds a wrong offset even where it stays inside of the device's arena. On a GPU
// nobody. Knows nothing of CUDA, for the emulation that stands in its place uses it too.
#ifndef SLUICE_FRAMEWORK_DEVICE_CUDA_OPERAND_WATCH_H_
#define SLUICE_FRAMEWORK_DEVICE_CUDA_OPERAND_WATCH_H_

#include <cstdint>

#include "absl/types/span.h"

struct CUstream_st;  // cudaStream_t points to one

namespace sluice {

struct CudaOperand {
  const void* begin;
  int64_t bytes;
  bool written;
};

// Of the device memory that kernels, copies and fills can reach, those that are given to the stream
// from now on touch these operands alone. No operands at all: anything, as before the first call.
using CudaOperandWatch = void (*)(CUstream_st* stream, absl::Span<const CudaOperand> operands);

// Before any stream is opened. Null: nobody.
void SetCudaOperandWatch(CudaOperandWatch watch);

// Tells the watch, if there is one.
void WatchCudaOperands(CUstream_st* stream, absl::Span<const CudaOperand> operands);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DEVICE_CUDA_OPERAND_WATCH_H_
