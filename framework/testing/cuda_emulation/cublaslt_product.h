// What a product of the emulated cuBLASLt computes: plain loops in a fixed order, so that bits are
// the same from run to run and on every processor.
#ifndef SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_CUBLASLT_PRODUCT_H_
#define SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_CUBLASLT_PRODUCT_H_

#include "framework/testing/cuda_emulation/cublaslt_algorithm.h"
#include "framework/testing/cuda_emulation/cublaslt_rules.h"

namespace sluice::cuda_emulation {

// Bias and auxiliary matrix stand in the problem.
struct MatmulOperands {
  const void* a = nullptr;
  const void* b = nullptr;
  const void* c = nullptr;
  void* d = nullptr;
  void* workspace = nullptr;
  float alpha = 1, beta = 0;
};

// REQUIRES: CheckProblem has nothing to say, and the algorithm was chosen for the problem.
void ComputeMatmul(const MatmulProblem& problem, const MatmulAlgorithm& algorithm,
                   const MatmulOperands& operands);

}  // namespace sluice::cuda_emulation

#endif  // SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_CUBLASLT_PRODUCT_H_
