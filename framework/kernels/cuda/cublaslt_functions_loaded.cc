#include "framework/base/status.h"
#include "framework/device/cuda_library.h"
#include "framework/kernels/cuda/cublaslt_functions.h"

namespace sluice::cuda {
namespace {

absl::StatusOr<CublasLtFunctions> Load() {
  ASSIGN_OR_RETURN(const CudaLibrary* const library, CudaLibrary::CublasLt());
  absl::Status status;
  // Keeps the first that is missing.
  const auto find = [&]<typename Pointer>(const char* name, Pointer* pointer) {
    const absl::StatusOr<Pointer> found = library->Function<Pointer>(name);
    if (found.ok()) *pointer = *found;
    if (status.ok()) status = found.status();
  };
  CublasLtFunctions functions;
  find("cublasLtCreate", &functions.create);
  find("cublasLtGetStatusName", &functions.status_name);
  find("cublasLtMatrixLayoutCreate", &functions.create_layout);
  find("cublasLtMatrixLayoutDestroy", &functions.destroy_layout);
  find("cublasLtMatrixLayoutSetAttribute", &functions.set_layout);
  find("cublasLtMatmulDescCreate", &functions.create_matmul);
  find("cublasLtMatmulDescDestroy", &functions.destroy_matmul);
  find("cublasLtMatmulDescSetAttribute", &functions.set_matmul);
  find("cublasLtMatmulPreferenceCreate", &functions.create_preference);
  find("cublasLtMatmulPreferenceDestroy", &functions.destroy_preference);
  find("cublasLtMatmulPreferenceSetAttribute", &functions.set_preference);
  find("cublasLtMatmulAlgoGetHeuristic", &functions.heuristic);
  find("cublasLtMatmulAlgoCapGetAttribute", &functions.capability);
  find("cublasLtMatmulAlgoConfigGetAttribute", &functions.configuration);
  find("cublasLtMatmul", &functions.matmul);
  RETURN_IF_ERROR(status);
  return functions;
}

}  // namespace

absl::StatusOr<const CublasLtFunctions*> FindCublasLt() {
  static const auto& functions = *new absl::StatusOr<CublasLtFunctions>(Load());
  if (!functions.ok()) return functions.status();
  return &*functions;
}

}  // namespace sluice::cuda
