#include "framework/testing/cuda_call_faults.h"

#include <cublasLt.h>
#include <cuda_runtime.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <utility>

namespace sluice {

// The emulation's own calls, as the linker names them for those that stand before them (--wrap).
namespace real {

cudaError_t Wait(cudaStream_t, cudaEvent_t,
                 unsigned int) asm("__real__Z19cudaStreamWaitEventP11CUstream_stP10CUevent_stj");
cudaError_t Record(cudaEvent_t,
                   cudaStream_t) asm("__real__Z15cudaEventRecordP10CUevent_stP11CUstream_st");
cudaError_t Query(cudaEvent_t) asm("__real__Z14cudaEventQueryP10CUevent_st");
void Barrier(int) asm("__real__ZN6sluice14cuda_emulation12BlockBarrierEi");
cudaError_t
Launch(const void*, dim3, dim3, size_t, size_t, cudaStream_t, std::function<void()>) asm(
    "__real__ZN6sluice14cuda_emulation12LaunchKernelEPKv4dim3S3_mmP11CUstream_st"
    "St8functionIFvvEE");
cudaError_t Copy(void*, const void*, size_t, cudaMemcpyKind, cudaStream_t) asm(
    "__real__Z15cudaMemcpyAsyncPvPKvm14cudaMemcpyKindP11CUstream_st");
cudaError_t CopyRows(
    void*, size_t, const void*, size_t, size_t, size_t, cudaMemcpyKind,
    cudaStream_t) asm("__real__Z17cudaMemcpy2DAsyncPvmPKvmmm14cudaMemcpyKindP11CUstream_st");
cudaError_t LaunchGraph(cudaGraphExec_t, cudaStream_t) asm(
    "__real__Z15cudaGraphLaunchP14CUgraphExec_stP11CUstream_st");
cudaError_t Pin(void*, size_t, unsigned int) asm("__real__Z16cudaHostRegisterPvmj");
cudaError_t Allocate(void**, size_t) asm("__real__Z10cudaMallocPPvm");
cublasStatus_t MakeLayout(cublasLtMatrixLayout_t*, cudaDataType, uint64_t, uint64_t,
                          int64_t) asm("__real_cublasLtMatrixLayoutCreate");
cublasStatus_t Multiply(cublasLtHandle_t, cublasLtMatmulDesc_t, const void*, const void*,
                        cublasLtMatrixLayout_t, const void*, cublasLtMatrixLayout_t, const void*,
                        const void*, cublasLtMatrixLayout_t, void*, cublasLtMatrixLayout_t,
                        const cublasLtMatmulAlgo_t*, void*, size_t,
                        cudaStream_t) asm("__real_cublasLtMatmul");

}  // namespace real

namespace {

std::atomic<CudaCallFault> fault{CudaCallFault::kNone};
std::atomic<int64_t> first{0}, end{0}, calls{0}, planted{0};

// Whether this call, to which the mistake could happen, makes it.
bool Happens(CudaCallFault which) {
  if (fault.load() != which) return false;
  const int64_t call = calls++;
  if (call < first.load() || call >= end.load()) return false;
  ++planted;
  return true;
}

constexpr size_t kShift = 64;  // bytes; where tensors may begin

// What the program has pinned, by where it begins.
std::mutex mutex;
std::map<uintptr_t, size_t> pinned;  // guarded by mutex
// What each stream has launched last since a mistake was planted.
std::map<cudaStream_t, cudaGraphExec_t> last_graphs;  // guarded by mutex

bool IsPinned(const void* p) {
  const std::lock_guard<std::mutex> lock(mutex);
  const auto address = reinterpret_cast<uintptr_t>(p);
  const auto behind = pinned.upper_bound(address);
  if (behind == pinned.begin()) return false;
  const auto& [begin, bytes] = *std::prev(behind);
  return address - begin < bytes;
}

}  // namespace

void PlantCallFault(CudaCallFault which, int64_t from, int64_t count) {
  fault = CudaCallFault::kNone;
  first = from;
  end = from + count;
  calls = planted = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex);
    last_graphs.clear();
  }
  fault = which;
}

int64_t PlantedCallFaults() { return planted.load(); }

namespace wrapped {

cudaError_t Wait(cudaStream_t stream, cudaEvent_t event, unsigned int flags) asm(
    "__wrap__Z19cudaStreamWaitEventP11CUstream_stP10CUevent_stj");
cudaError_t Wait(cudaStream_t stream, cudaEvent_t event, unsigned int flags) {
  if (Happens(CudaCallFault::kForgottenWait)) return cudaSuccess;
  return real::Wait(stream, event, flags);
}

cudaError_t Record(cudaEvent_t event, cudaStream_t stream) asm(
    "__wrap__Z15cudaEventRecordP10CUevent_stP11CUstream_st");
cudaError_t Record(cudaEvent_t event, cudaStream_t stream) {
  if (Happens(CudaCallFault::kForgottenRecord)) return cudaSuccess;
  if (Happens(CudaCallFault::kTwiceRecorded)) real::Record(event, stream);
  return real::Record(event, stream);
}

cudaError_t Query(cudaEvent_t event) asm("__wrap__Z14cudaEventQueryP10CUevent_st");
cudaError_t Query(cudaEvent_t event) {
  const cudaError_t error = real::Query(event);
  if (error == cudaErrorNotReady && Happens(CudaCallFault::kEarlyDone)) return cudaSuccess;
  return error;
}

void Barrier(int line) asm("__wrap__ZN6sluice14cuda_emulation12BlockBarrierEi");
void Barrier(int line) {
  if (!Happens(CudaCallFault::kForgottenBarrier)) real::Barrier(line);
}

cudaError_t
Launch(const void* kernel, dim3 blocks, dim3 threads, size_t shared_bytes, size_t argument_bytes, cudaStream_t stream, std::function<void()> thread) asm(
    "__wrap__ZN6sluice14cuda_emulation12LaunchKernelEPKv4dim3S3_mmP11CUstream_st"
    "St8functionIFvvEE");
cudaError_t Launch(const void* kernel, dim3 blocks, dim3 threads, size_t shared_bytes,
                   size_t argument_bytes, cudaStream_t stream, std::function<void()> thread) {
  if (shared_bytes > 0 && Happens(CudaCallFault::kSmallShared)) shared_bytes = 4;
  if (Happens(CudaCallFault::kLargeBlock)) threads.x = 2048;
  return real::Launch(kernel, blocks, threads, shared_bytes, argument_bytes, stream,
                      std::move(thread));
}

cudaError_t Copy(
    void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
    cudaStream_t stream) asm("__wrap__Z15cudaMemcpyAsyncPvPKvm14cudaMemcpyKindP11CUstream_st");
cudaError_t Copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                 cudaStream_t stream) {
  const bool of_device = !IsPinned(to);
  if (of_device && Happens(CudaCallFault::kLongCopy)) bytes += kShift;
  if (of_device && Happens(CudaCallFault::kShiftedCopy)) to = static_cast<std::byte*>(to) + kShift;
  const cudaError_t error = real::Copy(to, from, bytes, kind, stream);
  if (IsPinned(from) && Happens(CudaCallFault::kReusedPinned)) {
    auto* const byte = static_cast<std::byte*>(const_cast<void*>(from));
    *byte = ~*byte;
  }
  return error;
}

cudaError_t CopyRows(
    void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t rows,
    cudaMemcpyKind kind,
    cudaStream_t stream) asm("__wrap__Z17cudaMemcpy2DAsyncPvmPKvmmm14cudaMemcpyKindP11CUstream_st");
cudaError_t CopyRows(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                     size_t rows, cudaMemcpyKind kind, cudaStream_t stream) {
  if (Happens(CudaCallFault::kWidePitch)) from_pitch *= 2;
  return real::CopyRows(to, to_pitch, from, from_pitch, width, rows, kind, stream);
}

cudaError_t LaunchGraph(cudaGraphExec_t graph, cudaStream_t stream) asm(
    "__wrap__Z15cudaGraphLaunchP14CUgraphExec_stP11CUstream_st");
cudaError_t LaunchGraph(cudaGraphExec_t graph, cudaStream_t stream) {
  cudaGraphExec_t last = graph;
  {
    const std::lock_guard<std::mutex> lock(mutex);
    std::swap(last, last_graphs.emplace(stream, graph).first->second);
  }
  if (last != graph && Happens(CudaCallFault::kStaleGraph)) graph = last;
  return real::LaunchGraph(graph, stream);
}

cudaError_t Pin(void* begin, size_t bytes,
                unsigned int flags) asm("__wrap__Z16cudaHostRegisterPvmj");
cudaError_t Pin(void* begin, size_t bytes, unsigned int flags) {
  if (Happens(CudaCallFault::kHalfPinned)) bytes = bytes > 1 ? bytes / 2 : bytes;
  {
    const std::lock_guard<std::mutex> lock(mutex);
    pinned[reinterpret_cast<uintptr_t>(begin)] = bytes;
  }
  return real::Pin(begin, bytes, flags);
}

cudaError_t Allocate(void** made, size_t bytes) asm("__wrap__Z10cudaMallocPPvm");
cudaError_t Allocate(void** made, size_t bytes) {
  return real::Allocate(made, Happens(CudaCallFault::kSmallMemory) ? (bytes + 1) / 2 : bytes);
}

cublasStatus_t MakeLayout(cublasLtMatrixLayout_t* made, cudaDataType type, uint64_t rows,
                          uint64_t columns,
                          int64_t leading) asm("__wrap_cublasLtMatrixLayoutCreate");
cublasStatus_t MakeLayout(cublasLtMatrixLayout_t* made, cudaDataType type, uint64_t rows,
                          uint64_t columns, int64_t leading) {
  if (columns > 1 && Happens(CudaCallFault::kWideLeading)) leading *= 2;
  if (Happens(CudaCallFault::kNarrowLeading)) leading = static_cast<int64_t>(rows) - 1;
  return real::MakeLayout(made, type, rows, columns, leading);
}

cublasStatus_t Multiply(cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
                        const void* alpha, const void* a, cublasLtMatrixLayout_t a_layout,
                        const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
                        const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                        cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algorithm,
                        void* workspace, size_t workspace_bytes,
                        cudaStream_t stream) asm("__wrap_cublasLtMatmul");
cublasStatus_t Multiply(cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
                        const void* alpha, const void* a, cublasLtMatrixLayout_t a_layout,
                        const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
                        const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                        cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algorithm,
                        void* workspace, size_t workspace_bytes, cudaStream_t stream) {
  if (workspace_bytes > 0 && Happens(CudaCallFault::kSmallWorkspace)) --workspace_bytes;
  if (workspace_bytes > 0 && Happens(CudaCallFault::kShiftedWorkspace)) {
    workspace = static_cast<std::byte*>(workspace) + 8;
  }
  if (Happens(CudaCallFault::kShiftedOperand)) a = static_cast<const std::byte*>(a) + kShift;
  if (Happens(CudaCallFault::kDefaultStream)) stream = nullptr;
  return real::Multiply(handle, description, alpha, a, a_layout, b, b_layout, beta, c, c_layout, d,
                        d_layout, algorithm, workspace, workspace_bytes, stream);
}

}  // namespace wrapped
}  // namespace sluice
