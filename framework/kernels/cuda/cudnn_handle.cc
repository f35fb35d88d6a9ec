#include "framework/kernels/cuda/cudnn_handle.h"

#include <cuda_runtime.h>

#include <map>
#include <memory>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"

namespace sluice::cuda {
namespace {

absl::StatusOr<std::unique_ptr<CudnnHandle>> Make(int device) {
  ASSIGN_OR_RETURN(const CudnnBackend* const backend, CudnnBackend::Load());
  cudaDeviceProp properties;
  RETURN_IF_ERROR(
      FromCuda(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties"));
  cudnnHandle_t handle = nullptr;
  const absl::Status made = backend->ToStatus(backend->create_handle(&handle), "cudnnCreate");
  if (!made.ok()) return absl::UnavailableError(made.message());
  return std::make_unique<CudnnHandle>(
      *backend, handle,
      absl::StrCat("device ", device, ", ", properties.name, " ", properties.major, ".",
                   properties.minor, ", cuDNN ", backend->version));
}

}  // namespace

absl::StatusOr<CudnnHandle*> CudnnHandle::OfThisDevice() {
  static std::mutex& mutex = *new std::mutex();
  static auto& handles = *new std::map<int, std::unique_ptr<CudnnHandle>>();
  int device = 0;
  RETURN_IF_ERROR(FromCuda(cudaGetDevice(&device), "cudaGetDevice"));
  const std::lock_guard<std::mutex> lock(mutex);
  std::unique_ptr<CudnnHandle>& handle = handles[device];
  if (handle == nullptr) {
    ASSIGN_OR_RETURN(handle, Make(device));
  }
  return handle.get();
}

}  // namespace sluice::cuda
