// Which products the emulated cuBLASLt takes. Its three refusals are three different mistakes, and
// are never mixed up (cublasLt.h on cublasLtMatmul): INVALID_VALUE, parameters in conflict or
// impossible; NOT_SUPPORTED, a product that makes sense but that no kernel does; ARCH_MISMATCH, one
// that this device cannot do. Pure; any thread.
#ifndef SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_CUBLASLT_RULES_H_
#define SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_CUBLASLT_RULES_H_

#include <cublasLt.h>

#include <cstdint>
#include <string>

#include "framework/testing/cuda_emulation/cublaslt_descriptors.h"

namespace sluice::cuda_emulation {

// D = epilogue(alpha op(A) op(B) + beta C), of matrices column by column; copies of descriptors.
struct MatmulProblem {
  cublasLtMatmulDescOpaque_t matmul;
  cublasLtMatrixLayoutOpaque_t a, b, c, d;

  int64_t rows() const { return static_cast<int64_t>(d.rows); }
  int64_t columns() const { return static_cast<int64_t>(d.cols); }
  int64_t depth() const {
    return static_cast<int64_t>(matmul.transpose_a == CUBLAS_OP_N ? a.cols : a.rows);
  }
  uint32_t aux_type() const { return matmul.aux_type < 0 ? d.type : matmul.aux_type; }
  uint32_t bias_type() const { return matmul.bias_type < 0 ? d.type : matmul.bias_type; }
};

enum class Activation { kNone, kRelu, kGelu };
// What a bias vector is for: added to each column of D, or itself a result, a sum of D's columns,
// or of op(A) or op(B) over the depth.
enum class BiasUse { kNone, kAdded, kSumOfD, kSumOfA, kSumOfB };
enum class AuxUse { kNone, kWritten, kRead };

struct Epilogue {
  uint32_t value;
  Activation activation;  // or, where the auxiliary matrix is read, its gradient
  BiasUse bias;
  AuxUse aux;
};
// Null: there is no such epilogue.
const Epilogue* FindEpilogue(uint32_t value);

// How many elements the bias vector of a matrix of the batch has.
int64_t BiasLength(const MatmulProblem& problem, const Epilogue& epilogue);

struct Refusal {
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
  std::string reason;
  bool refused() const { return status != CUBLAS_STATUS_SUCCESS; }
};

// `capability`: of the device, 80 for 8.0.
Refusal CheckProblem(const MatmulProblem& problem, int capability);

// Whether an address is a multiple.
bool IsAligned(const void* address, int64_t bytes);

}  // namespace sluice::cuda_emulation

#endif  // SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_CUBLASLT_RULES_H_
