// The functions of cuBLASLt that the framework calls: of the library that is installed, opened by
// name at the first call, or of the emulation, which is linked.
#ifndef SLUICE_FRAMEWORK_KERNELS_CUDA_CUBLASLT_FUNCTIONS_H_
#define SLUICE_FRAMEWORK_KERNELS_CUDA_CUBLASLT_FUNCTIONS_H_

#include <cublasLt.h>

#include "absl/status/statusor.h"

namespace sluice::cuda {

// In the order of cublaslt_functions_*.cc.
struct CublasLtFunctions {
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtGetStatusName) status_name = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) create_layout = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) destroy_layout = nullptr;
  decltype(&cublasLtMatrixLayoutSetAttribute) set_layout = nullptr;
  decltype(&cublasLtMatmulDescCreate) create_matmul = nullptr;
  decltype(&cublasLtMatmulDescDestroy) destroy_matmul = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) set_matmul = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) create_preference = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) destroy_preference = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic = nullptr;
  decltype(&cublasLtMatmulAlgoCapGetAttribute) capability = nullptr;
  decltype(&cublasLtMatmulAlgoConfigGetAttribute) configuration = nullptr;
  decltype(&cublasLtMatmul) matmul = nullptr;
};

// The same for all callers; any thread. Errors: of the loader, which says what to install.
absl::StatusOr<const CublasLtFunctions*> FindCublasLt();

}  // namespace sluice::cuda

#endif  // SLUICE_FRAMEWORK_KERNELS_CUDA_CUBLASLT_FUNCTIONS_H_
