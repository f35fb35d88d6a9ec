// Runs the threads of a kernel, one after the other, in an order that a seed decides.
#ifndef SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_BLOCK_H_
#define SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_BLOCK_H_

#include <cuda_kernel.h>

#include <cstddef>
#include <functional>

#include "framework/testing/xorshift.h"

namespace sluice::cuda_emulation {

struct KernelRun {
  dim3 blocks, threads;
  size_t shared_bytes = 0;
  std::function<void()> thread;  // one, whose indices are set
};

// Between BeginOperation() and EndOperation().
void RunKernel(const KernelRun& run, Xorshift* random);

// From inside of a kernel: nothing more of it runs.
[[noreturn]] void EndKernel();

}  // namespace sluice::cuda_emulation

#endif  // SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_BLOCK_H_
