// What stands behind the descriptors of the emulated cuBLASLt. They keep what they are told; only
// the heuristic and the product look at it (cublaslt_rules.h). Any thread, as long as nobody
// changes a descriptor that another thread uses.
#ifndef SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_CUBLASLT_DESCRIPTORS_H_
#define SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_CUBLASLT_DESCRIPTORS_H_

#include <cublasLt.h>

#include <cstddef>
#include <cstdint>

// Fields are in the order of their attributes' numbers, with the library's defaults.
struct cublasLtMatrixLayoutOpaque_t {
  uint32_t type = CUDA_R_32F;
  int32_t order = CUBLASLT_ORDER_COL;
  uint64_t rows = 0, cols = 0;
  int64_t ld = 0;
  int32_t batch_count = 1;
  int64_t batch_stride = 0;
  int64_t plane_offset = 0;
  uint32_t batch_mode = CUBLASLT_BATCH_MODE_STRIDED;
};

struct cublasLtMatmulDescOpaque_t {
  int32_t compute_type = CUBLAS_COMPUTE_32F;
  int32_t scale_type = CUDA_R_32F;
  int32_t pointer_mode = CUBLASLT_POINTER_MODE_HOST;
  int32_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N, transpose_c = CUBLAS_OP_N;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void* bias = nullptr;
  int64_t bias_batch_stride = 0;
  void* aux = nullptr;
  int64_t aux_ld = 0;
  int64_t aux_batch_stride = 0;
  int32_t sm_count_target = 0;
  int32_t aux_type = -1;   // of the result's elements
  int32_t bias_type = -1;  // of the result's elements
};

struct cublasLtMatmulPreferenceOpaque_t {
  uint32_t search_mode = 0;
  uint64_t max_workspace_bytes = 0;
  uint32_t reduction_scheme_mask = CUBLASLT_REDUCTION_SCHEME_MASK;
  uint32_t alignment[4] = {256, 256, 256, 256};  // promised, of A, B, C and D, in bytes
  float max_waves_count = 0;
  uint64_t implementation_mask = ~uint64_t{0};
};

namespace sluice::cuda_emulation {

// Whether a pointer is a descriptor that was created and not destroyed.
bool IsLiveDescriptor(const void* descriptor);

// How many bytes an element of the type has; 0 of a type that the emulation does not know.
int64_t BytesOfType(uint32_t type);

}  // namespace sluice::cuda_emulation

#endif  // SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_CUBLASLT_DESCRIPTORS_H_
