#include "framework/testing/cuda_emulation/cublaslt_descriptors.h"

#include <cstring>
#include <mutex>
#include <set>

namespace sluice::cuda_emulation {
namespace {

// f(the field of a descriptor that the attribute names); false if there is none.
template <typename F>
bool VisitField(cublasLtMatrixLayoutOpaque_t& layout, int attribute, F&& f) {
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_TYPE:
      return f(layout.type);
    case CUBLASLT_MATRIX_LAYOUT_ORDER:
      return f(layout.order);
    case CUBLASLT_MATRIX_LAYOUT_ROWS:
      return f(layout.rows);
    case CUBLASLT_MATRIX_LAYOUT_COLS:
      return f(layout.cols);
    case CUBLASLT_MATRIX_LAYOUT_LD:
      return f(layout.ld);
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
      return f(layout.batch_count);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
      return f(layout.batch_stride);
    case CUBLASLT_MATRIX_LAYOUT_PLANE_OFFSET:
      return f(layout.plane_offset);
    case CUBLASLT_MATRIX_LAYOUT_BATCH_MODE:
      return f(layout.batch_mode);
    default:
      return false;
  }
}

template <typename F>
bool VisitField(cublasLtMatmulDescOpaque_t& matmul, int attribute, F&& f) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_COMPUTE_TYPE:
      return f(matmul.compute_type);
    case CUBLASLT_MATMUL_DESC_SCALE_TYPE:
      return f(matmul.scale_type);
    case CUBLASLT_MATMUL_DESC_POINTER_MODE:
      return f(matmul.pointer_mode);
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return f(matmul.transpose_a);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return f(matmul.transpose_b);
    case CUBLASLT_MATMUL_DESC_TRANSC:
      return f(matmul.transpose_c);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return f(matmul.epilogue);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return f(matmul.bias);
    case CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE:
      return f(matmul.bias_batch_stride);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      return f(matmul.aux);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      return f(matmul.aux_ld);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE:
      return f(matmul.aux_batch_stride);
    case CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET:
      return f(matmul.sm_count_target);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE:
      return f(matmul.aux_type);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      return f(matmul.bias_type);
    default:
      return false;
  }
}

template <typename F>
bool VisitField(cublasLtMatmulPreferenceOpaque_t& preference, int attribute, F&& f) {
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_SEARCH_MODE:
      return f(preference.search_mode);
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return f(preference.max_workspace_bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return f(preference.reduction_scheme_mask);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return f(preference.alignment[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES]);
    case CUBLASLT_MATMUL_PREF_MAX_WAVES_COUNT:
      return f(preference.max_waves_count);
    case CUBLASLT_MATMUL_PREF_IMPL_MASK:
      return f(preference.implementation_mask);
    default:
      return false;
  }
}

// A freed descriptor's memory may be another's soon: who is alive stands beside them.
struct Registry {
  std::mutex mutex;
  std::set<const void*> live;
};
Registry& GlobalRegistry() {
  static Registry& registry = *new Registry();
  return registry;
}

template <typename T>
cublasStatus_t Create(T** descriptor, const T& initial) {
  if (descriptor == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *descriptor = new T(initial);
  Registry& registry = GlobalRegistry();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  registry.live.insert(*descriptor);
  return CUBLAS_STATUS_SUCCESS;
}

template <typename T>
cublasStatus_t Destroy(T* descriptor) {
  if (descriptor == nullptr) return CUBLAS_STATUS_SUCCESS;  // as the library does
  Registry& registry = GlobalRegistry();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  if (registry.live.erase(descriptor) == 0) return CUBLAS_STATUS_INVALID_VALUE;
  delete descriptor;
  return CUBLAS_STATUS_SUCCESS;
}

template <typename T>
cublasStatus_t Set(T* descriptor, int attribute, const void* from, size_t bytes) {
  const auto set = [&](auto& field) {
    if (from == nullptr || bytes != sizeof field) return false;
    std::memcpy(&field, from, bytes);
    return true;
  };
  const bool done = IsLiveDescriptor(descriptor) && VisitField(*descriptor, attribute, set);
  return done ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

template <typename T>
cublasStatus_t Get(T* descriptor, int attribute, void* to, size_t bytes, size_t* written) {
  const auto get = [&](const auto& field) {
    if (bytes == 0 && written == nullptr) return false;
    if (bytes != 0 && (to == nullptr || bytes != sizeof field)) return false;
    if (written != nullptr) *written = sizeof field;
    if (bytes != 0) std::memcpy(to, &field, bytes);
    return true;
  };
  const bool done = IsLiveDescriptor(descriptor) && VisitField(*descriptor, attribute, get);
  return done ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

}  // namespace

bool IsLiveDescriptor(const void* descriptor) {
  Registry& registry = GlobalRegistry();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  return registry.live.count(descriptor) > 0;
}

int64_t BytesOfType(uint32_t type) {
  switch (type) {
    case CUDA_R_32F:
      return 4;
    case CUDA_R_16F:
    case CUDA_R_16BF:
      return 2;
    case CUDA_R_64F:
      return 8;
    default:
      return 0;
  }
}

extern "C" {

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                          uint64_t rows, uint64_t cols, int64_t ld) {
  cublasLtMatrixLayoutOpaque_t initial;
  initial.type = type;
  initial.rows = rows;
  initial.cols = cols;
  initial.ld = ld;
  return Create(layout, initial);
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return Destroy(layout);
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* from, size_t bytes) {
  return Set(layout, attribute, from, bytes);
}
cublasStatus_t cublasLtMatrixLayoutGetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute, void* to,
                                                size_t bytes, size_t* written) {
  return Get(layout, attribute, to, bytes, written);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* matmul,
                                        cublasComputeType_t compute_type,
                                        cudaDataType_t scale_type) {
  cublasLtMatmulDescOpaque_t initial;
  initial.compute_type = compute_type;
  initial.scale_type = scale_type;
  return Create(matmul, initial);
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t matmul) { return Destroy(matmul); }
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t matmul,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* from, size_t bytes) {
  return Set(matmul, attribute, from, bytes);
}
cublasStatus_t cublasLtMatmulDescGetAttribute(cublasLtMatmulDesc_t matmul,
                                              cublasLtMatmulDescAttributes_t attribute, void* to,
                                              size_t bytes, size_t* written) {
  return Get(matmul, attribute, to, bytes, written);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  return Create(preference, cublasLtMatmulPreferenceOpaque_t());
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return Destroy(preference);
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* from, size_t bytes) {
  return Set(preference, attribute, from, bytes);
}
cublasStatus_t cublasLtMatmulPreferenceGetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    void* to, size_t bytes, size_t* written) {
  return Get(preference, attribute, to, bytes, written);
}

}  // extern "C"

}  // namespace sluice::cuda_emulation
