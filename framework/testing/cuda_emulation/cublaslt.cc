// cuBLASLt on CPU: its functions that do something. Descriptors are in cublaslt_descriptors.cc.
#include "framework/testing/cuda_emulation/cublaslt.h"

#include <cublasLt.h>

#include <atomic>
#include <cstring>
#include <mutex>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/testing/cuda_emulation/cublaslt_algorithm.h"
#include "framework/testing/cuda_emulation/cublaslt_product.h"
#include "framework/testing/cuda_emulation/cublaslt_rules.h"
#include "framework/testing/cuda_emulation/emulation.h"

// Belongs to the device that was the thread's when it was created.
struct cublasLtContext {
  int device;
  int capability;
};

namespace sluice::cuda_emulation {
namespace {

// manual, cublasLtMatmul: the workspace's address is a multiple of 256.
constexpr int64_t kWorkspaceAlignment = 256;

std::string& MutableLastRefusal() {
  static thread_local std::string reason;
  return reason;
}

cublasStatus_t Refuse(cublasStatus_t status, std::string reason) {
  MutableLastRefusal() = std::move(reason);
  return status;
}
cublasStatus_t Refuse(const Refusal& refusal) { return Refuse(refusal.status, refusal.reason); }

std::atomic<bool>& EpiloguesAreThere() {
  static std::atomic<bool> there_are = true;
  return there_are;
}

struct Handles {
  std::mutex mutex;
  std::set<cublasLtHandle_t> live;
};
Handles& AllHandles() {
  static Handles& handles = *new Handles();
  return handles;
}

cublasStatus_t CheckHandle(cublasLtHandle_t handle) {
  {
    Handles& handles = AllHandles();
    const std::lock_guard<std::mutex> lock(handles.mutex);
    if (handles.live.count(handle) == 0) {
      return Refuse(CUBLAS_STATUS_NOT_INITIALIZED, "no such handle");
    }
  }
  int device = -1;
  if (cudaGetDevice(&device) != cudaSuccess || device != handle->device) {
    return Refuse(CUBLAS_STATUS_INVALID_VALUE,
                  absl::StrCat("the handle is of device ", handle->device,
                               ", the calling thread's device is ", device));
  }
  return CUBLAS_STATUS_SUCCESS;
}

bool CopyProblem(cublasLtMatmulDesc_t matmul, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                 cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d, MatmulProblem* problem) {
  for (const void* descriptor : std::initializer_list<const void*>{matmul, a, b, c, d}) {
    if (!IsLiveDescriptor(descriptor)) return false;
  }
  *problem = {*matmul, *a, *b, *c, *d};
  return true;
}

// What may be wrong with a call although its product is right.
Refusal CheckCall(const MatmulProblem& problem, const MatmulAlgorithm& algorithm,
                  const MatmulOperands& operands, size_t workspace_bytes, int capability) {
  if (algorithm.fingerprint != FingerprintOf(problem)) {
    return {CUBLAS_STATUS_INVALID_VALUE, "the algorithm was chosen for another product"};
  }
  if (algorithm.capability != capability) {
    return {CUBLAS_STATUS_ARCH_MISMATCH,
            absl::StrCat("the algorithm was chosen for compute capability ", algorithm.capability,
                         ", the device has ", capability)};
  }
  // header, cublasLtMatmul.
  if (workspace_bytes < algorithm.workspace ||
      (algorithm.workspace > 0 && operands.workspace == nullptr)) {
    return {CUBLAS_STATUS_INVALID_VALUE,
            absl::StrCat("a workspace of ", workspace_bytes, " bytes, the algorithm needs ",
                         algorithm.workspace)};
  }
  if (!IsAligned(operands.workspace, kWorkspaceAlignment)) {
    return {CUBLAS_STATUS_INVALID_VALUE, "the workspace is not aligned to 256 bytes"};
  }
  // report, PyTorch pull request 92201: pointers that are aligned less than was promised.
  const std::pair<const char*, const void*> pointers[] = {
      {"A", operands.a}, {"B", operands.b}, {"C", operands.c}, {"D", operands.d}};
  for (int i = 0; i < 4; ++i) {
    const auto& [name, address] = pointers[i];
    if (address == nullptr && !(i == 2 && operands.beta == 0)) {
      return {CUBLAS_STATUS_INVALID_VALUE, absl::StrCat(name, " is null")};
    }
    if (!IsAligned(address, algorithm.alignment[i])) {
      return {CUBLAS_STATUS_NOT_SUPPORTED,
              absl::StrCat(name, " is not aligned to the ", algorithm.alignment[i],
                           " bytes that were promised")};
    }
  }
  if (algorithm.bias_alignment > 0 && !IsAligned(problem.matmul.bias, algorithm.bias_alignment)) {
    return {CUBLAS_STATUS_NOT_SUPPORTED, "the bias is aligned less than when the heuristic saw it"};
  }
  if (algorithm.aux_alignment > 0 && !IsAligned(problem.matmul.aux, algorithm.aux_alignment)) {
    return {CUBLAS_STATUS_NOT_SUPPORTED,
            "the auxiliary matrix is aligned less than when the heuristic saw it"};
  }
  // header, cublasLtMatmul, and memory: in place only where C lies as D does.
  if (operands.beta != 0 && operands.c == operands.d &&
      (problem.c.ld != problem.d.ld || problem.c.batch_stride != problem.d.batch_stride)) {
    return {CUBLAS_STATUS_INVALID_VALUE, "C is D, but with another layout"};
  }
  // Ours: the library says nothing, and reads its factors while it writes.
  for (int i = 0; i < 2; ++i) {
    if (pointers[i].second != operands.d) continue;
    return {CUBLAS_STATUS_INVALID_VALUE, absl::StrCat("D lies where ", pointers[i].first, " does")};
  }
  // memory: a gradient of GELU takes no C.
  const Epilogue& epilogue = *FindEpilogue(problem.matmul.epilogue);
  if (operands.beta != 0 && epilogue.activation == Activation::kGelu &&
      epilogue.aux == AuxUse::kRead) {
    return {CUBLAS_STATUS_NOT_SUPPORTED, "a gradient of GELU and a beta other than 0"};
  }
  return {};
}

void AddMatrix(const void* base, const cublasLtMatrixLayoutOpaque_t& x, bool written,
               std::vector<LibraryAccess>* accesses) {
  const int64_t size = BytesOfType(x.type);
  const int64_t matrices = x.batch_stride == 0 ? 1 : x.batch_count;
  for (int64_t i = 0; i < matrices; ++i) {
    accesses->push_back({static_cast<const char*>(base) + i * x.batch_stride * size, x.rows * size,
                         written, x.cols, static_cast<size_t>(x.ld * size)});
  }
}

void AddEpilogue(const MatmulProblem& p, std::vector<LibraryAccess>* accesses) {
  const Epilogue& epilogue = *FindEpilogue(p.matmul.epilogue);
  const auto batch = static_cast<size_t>(p.d.batch_count);
  if (epilogue.bias != BiasUse::kNone) {
    const int64_t size = BytesOfType(p.bias_type());
    const size_t vectors = p.matmul.bias_batch_stride == 0 ? 1 : batch;
    accesses->push_back({p.matmul.bias, static_cast<size_t>(BiasLength(p, epilogue) * size),
                         epilogue.bias != BiasUse::kAdded, vectors,
                         static_cast<size_t>(p.matmul.bias_batch_stride * size)});
  }
  if (epilogue.aux != AuxUse::kNone) {
    // A mask is in bits, and its strides are whole bytes.
    const int64_t bits =
        epilogue.activation == Activation::kRelu ? 1 : 8 * BytesOfType(p.aux_type());
    for (size_t i = 0; i < batch; ++i) {
      accesses->push_back(
          {static_cast<const char*>(p.matmul.aux) + i * p.matmul.aux_batch_stride * bits / 8,
           static_cast<size_t>((p.rows() * bits + 7) / 8), epilogue.aux == AuxUse::kWritten,
           static_cast<size_t>(p.columns()), static_cast<size_t>(p.matmul.aux_ld * bits / 8)});
    }
  }
}

std::vector<LibraryAccess> AccessesOf(const MatmulProblem& problem,
                                      const MatmulAlgorithm& algorithm,
                                      const MatmulOperands& operands) {
  std::vector<LibraryAccess> accesses;
  AddMatrix(operands.a, problem.a, false, &accesses);
  AddMatrix(operands.b, problem.b, false, &accesses);
  if (operands.beta != 0) AddMatrix(operands.c, problem.c, false, &accesses);
  // The workspace is written: streams that share one are not in order, and that is seen.
  if (algorithm.workspace > 0) accesses.push_back({operands.workspace, algorithm.workspace, true});
  AddEpilogue(problem, &accesses);
  AddMatrix(operands.d, problem.d, true, &accesses);
  return accesses;
}

std::string NameOf(const MatmulProblem& p) {
  return absl::StrCat("cublasLtMatmul of ", p.rows(), "x", p.columns(), "x", p.depth(),
                      p.d.batch_count > 1 ? absl::StrCat(", ", p.d.batch_count, " of them") : "");
}

template <typename T>
cublasStatus_t GetValue(T value, void* to, size_t bytes, size_t* written) {
  if (bytes == 0 && written == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  if (bytes != 0 && (to == nullptr || bytes != sizeof value)) return CUBLAS_STATUS_INVALID_VALUE;
  if (written != nullptr) *written = sizeof value;
  if (bytes != 0) std::memcpy(to, &value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t GetHeuristic(cublasLtHandle_t handle, const MatmulProblem& problem,
                            const cublasLtMatmulPreferenceOpaque_t& preference, int requested,
                            cublasLtMatmulHeuristicResult_t* results, int* returned) {
  const Refusal refusal = CheckProblem(problem, handle->capability);
  if (refusal.refused()) return Refuse(refusal);
  if (problem.matmul.epilogue != CUBLASLT_EPILOGUE_DEFAULT && !EpiloguesAreThere()) {
    return Refuse(CUBLAS_STATUS_NOT_SUPPORTED, "no algorithm has an epilogue");
  }
  for (const uint32_t alignment : preference.alignment) {
    // memory: an alignment is a power of two.
    if (alignment == 0 || (alignment & (alignment - 1)) != 0) {
      return Refuse(CUBLAS_STATUS_INVALID_VALUE, absl::StrCat("an alignment of ", alignment));
    }
  }
  for (const MatmulAlgorithm& algorithm :
       ChooseAlgorithms(problem, preference, handle->capability)) {
    if (*returned == requested) break;
    cublasLtMatmulHeuristicResult_t& result = results[(*returned)++];
    result = {};
    algorithm.Pack(&result.algo);
    result.workspaceSize = algorithm.workspace;
    result.state = CUBLAS_STATUS_SUCCESS;
    result.wavesCount = 1;
  }
  if (*returned > 0) return CUBLAS_STATUS_SUCCESS;
  return Refuse(CUBLAS_STATUS_NOT_SUPPORTED, "the preference allows no algorithm");
}

}  // namespace

const std::string& LastCublasLtRefusal() { return MutableLastRefusal(); }

void SetCublasLtEpilogues(bool there_are) { EpiloguesAreThere() = there_are; }

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  if (handle == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  int device = -1;
  cudaDeviceProp properties;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaGetDeviceProperties(&properties, device) != cudaSuccess) {
    return Refuse(CUBLAS_STATUS_NOT_INITIALIZED, "no device");
  }
  *handle = new cublasLtContext{device, properties.major * 10 + properties.minor};
  const std::lock_guard<std::mutex> lock(AllHandles().mutex);
  AllHandles().live.insert(*handle);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  const std::lock_guard<std::mutex> lock(AllHandles().mutex);
  if (AllHandles().live.erase(handle) == 0) return CUBLAS_STATUS_NOT_INITIALIZED;
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

const char* cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_ARCH_MISMATCH:
      return "CUBLAS_STATUS_ARCH_MISMATCH";
    case CUBLAS_STATUS_MAPPING_ERROR:
      return "CUBLAS_STATUS_MAPPING_ERROR";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_INTERNAL_ERROR:
      return "CUBLAS_STATUS_INTERNAL_ERROR";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    case CUBLAS_STATUS_LICENSE_ERROR:
      return "CUBLAS_STATUS_LICENSE_ERROR";
  }
  return "unrecognized status";
}

const char* cublasLtGetStatusString(cublasStatus_t status) { return cublasLtGetStatusName(status); }

size_t cublasLtGetVersion(void) { return 130100; }

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t matmul,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* returned) {
  if (returned != nullptr) *returned = 0;
  const cublasStatus_t status = CheckHandle(handle);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  MatmulProblem problem;
  if (!CopyProblem(matmul, a, b, c, d, &problem) || !IsLiveDescriptor(preference)) {
    return Refuse(CUBLAS_STATUS_INVALID_VALUE, "a descriptor is missing");
  }
  if (requested <= 0 || results == nullptr || returned == nullptr) {
    return Refuse(CUBLAS_STATUS_INVALID_VALUE, "no room for results");
  }
  return GetHeuristic(handle, problem, *preference, requested, results, returned);
}

cublasStatus_t cublasLtMatmulAlgoCapGetAttribute(const cublasLtMatmulAlgo_t* words,
                                                 cublasLtMatmulAlgoCapAttributes_t attribute,
                                                 void* to, size_t bytes, size_t* written) {
  MatmulAlgorithm algorithm;
  if (words == nullptr || !MatmulAlgorithm::Unpack(*words, &algorithm) ||
      attribute != CUBLASLT_ALGO_CAP_NUMERICAL_IMPL_FLAGS) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  return GetValue(algorithm.implementation, to, bytes, written);
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* words,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                    void* to, size_t bytes, size_t* written) {
  MatmulAlgorithm algorithm;
  if (words == nullptr || !MatmulAlgorithm::Unpack(*words, &algorithm)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  switch (attribute) {
    case CUBLASLT_ALGO_CONFIG_ID:
      return GetValue(algorithm.id, to, bytes, written);
    case CUBLASLT_ALGO_CONFIG_SPLITK_NUM:
      return GetValue(algorithm.splits, to, bytes, written);
    case CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME:
      return GetValue(algorithm.scheme, to, bytes, written);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t matmul,
                              const void* alpha, const void* A, cublasLtMatrixLayout_t a,
                              const void* B, cublasLtMatrixLayout_t b, const void* beta,
                              const void* C, cublasLtMatrixLayout_t c, void* D,
                              cublasLtMatrixLayout_t d, const cublasLtMatmulAlgo_t* algo,
                              void* workspace, size_t workspace_bytes, cudaStream_t stream) {
  const cublasStatus_t status = CheckHandle(handle);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  MatmulProblem problem;
  if (!CopyProblem(matmul, a, b, c, d, &problem) || alpha == nullptr || beta == nullptr) {
    return Refuse(CUBLAS_STATUS_INVALID_VALUE, "a descriptor, alpha or beta is missing");
  }
  const Refusal wrong = CheckProblem(problem, handle->capability);
  if (wrong.refused()) return Refuse(wrong);
  // The library would choose one itself, by a heuristic that runs in every step and has no
  // workspace: ours are chosen at load.
  MatmulAlgorithm algorithm;
  if (algo == nullptr || !MatmulAlgorithm::Unpack(*algo, &algorithm)) {
    return Refuse(CUBLAS_STATUS_INVALID_VALUE, "no algorithm was chosen");
  }
  MatmulOperands operands = {A, B, C, D, workspace};
  std::memcpy(&operands.alpha, alpha, sizeof(float));
  std::memcpy(&operands.beta, beta, sizeof(float));
  const Refusal refusal =
      CheckCall(problem, algorithm, operands, workspace_bytes, handle->capability);
  if (refusal.refused()) return Refuse(refusal);
  const cudaError_t enqueued = EnqueueLibraryCall(
      stream,
      {NameOf(problem), AccessesOf(problem, algorithm, operands),
       [problem, algorithm, operands] { ComputeMatmul(problem, algorithm, operands); }, nullptr});
  return enqueued == cudaSuccess ? CUBLAS_STATUS_SUCCESS
                                 : Refuse(CUBLAS_STATUS_EXECUTION_FAILED, "the stream failed");
}

}  // extern "C"

}  // namespace sluice::cuda_emulation
