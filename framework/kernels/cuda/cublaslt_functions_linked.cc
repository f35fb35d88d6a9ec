#include "framework/kernels/cuda/cublaslt_functions.h"

namespace sluice::cuda {

absl::StatusOr<const CublasLtFunctions*> FindCublasLt() {
  static constexpr CublasLtFunctions functions = {
      cublasLtCreate,
      cublasLtGetStatusName,
      cublasLtMatrixLayoutCreate,
      cublasLtMatrixLayoutDestroy,
      cublasLtMatrixLayoutSetAttribute,
      cublasLtMatmulDescCreate,
      cublasLtMatmulDescDestroy,
      cublasLtMatmulDescSetAttribute,
      cublasLtMatmulPreferenceCreate,
      cublasLtMatmulPreferenceDestroy,
      cublasLtMatmulPreferenceSetAttribute,
      cublasLtMatmulAlgoGetHeuristic,
      cublasLtMatmulAlgoCapGetAttribute,
      cublasLtMatmulAlgoConfigGetAttribute,
      cublasLtMatmul,
  };
  return &functions;
}

}  // namespace sluice::cuda
