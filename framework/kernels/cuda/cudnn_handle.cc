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

// Of this process, by device.
struct Handles {
  std::mutex mutex;
  std::map<int, std::unique_ptr<CudnnHandle>> of_device;

  static Handles& Global() {
    static Handles& handles = *new Handles();
    return handles;
  }
};

}  // namespace

absl::StatusOr<CudnnHandle*> CudnnHandle::OfThisDevice() {
  int device = 0;
  RETURN_IF_ERROR(FromCuda(cudaGetDevice(&device), "cudaGetDevice"));
  Handles& all = Handles::Global();
  const std::lock_guard<std::mutex> lock(all.mutex);
  std::unique_ptr<CudnnHandle>& handle = all.of_device[device];
  if (handle == nullptr) {
    ASSIGN_OR_RETURN(handle, Make(device));
  }
  return handle.get();
}

// One handle that goes from stream to stream will not do: cudnnSetStream records an event in the
// stream that it leaves, which by then may have ended (a fault in the driver, seen with 9.14 on an
// H200), and makes the other wait for it, which ties two captures together.
absl::Status CudnnHandle::Serve(CudaStream& stream) {
  CudnnHandle* shared = nullptr;
  {
    Handles& all = Handles::Global();
    const std::lock_guard<std::mutex> lock(all.mutex);
    const auto found = all.of_device.find(stream.device());
    if (found == all.of_device.end() || found->second == nullptr) return absl::OkStatus();
    shared = found->second.get();
  }
  const CudnnBackend& backend = shared->backend_;
  const std::lock_guard<std::mutex> lock(shared->mutex_);
  if (shared->of_streams_.contains(stream.handle())) return absl::OkStatus();
  cudnnHandle_t made = nullptr;
  RETURN_IF_ERROR(backend.ToStatus(backend.create_handle(&made), "cudnnCreate"));
  const absl::Status set =
      backend.ToStatus(backend.set_stream(made, stream.handle()), "cudnnSetStream");
  if (!set.ok()) {
    backend.destroy_handle(made);
    return set;
  }
  shared->of_streams_[stream.handle()] = made;
  stream.AtEnd([shared, of = stream.handle()] {
    const std::lock_guard<std::mutex> lock(shared->mutex_);
    shared->backend_.destroy_handle(shared->of_streams_[of]);
    shared->of_streams_.erase(of);
  });
  return absl::OkStatus();
}

}  // namespace sluice::cuda
