// Handles of cuDNN: one a device of this process that plans, made by the first who needs it and
// kept, and for each stream one that runs.
#ifndef SLUICE_FRAMEWORK_KERNELS_CUDA_CUDNN_HANDLE_H_
#define SLUICE_FRAMEWORK_KERNELS_CUDA_CUDNN_HANDLE_H_

#include <cudnn.h>

#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/device/cuda_device.h"
#include "framework/kernels/cuda/cudnn_backend.h"

namespace sluice::cuda {

class CudnnHandle {
 public:
  // Of the calling thread's device; any thread. NotFound and FailedPrecondition as of
  // CudnnBackend::Load; Unavailable, with cuDNN's words, if it cannot make one.
  static absl::StatusOr<CudnnHandle*> OfThisDevice();

  CudnnHandle(const CudnnBackend& backend, cudnnHandle_t handle, std::string card)
      : backend_(backend), handle_(handle), card_(std::move(card)) {}

  const CudnnBackend& backend() const { return backend_; }
  // Which device, card and version of cuDNN: plans are good for no other.
  const std::string& card() const { return card_; }

  // fn(handle), which is nobody else's meanwhile. Any thread.
  template <typename F>
  auto Use(F&& fn) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return fn(handle_);
  }
  // fn(handle), for work that is given to a stream, which Serve has been told of.
  template <typename F>
  absl::Status UseOn(CudaStream& stream, F&& fn) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = of_streams_.find(stream.handle());
    if (found == of_streams_.end()) return absl::InternalError("a stream without a cuDNN handle");
    return fn(found->second);
  }
  // Gives a stream of the calling thread's device a handle of its own, if that device has one:
  // before the stream is captured. It ends with the stream. Errors are cuDNN's.
  static absl::Status Serve(CudaStream& stream);

 private:
  const CudnnBackend& backend_;
  const cudnnHandle_t handle_;
  const std::string card_;
  std::mutex mutex_;
  std::map<cudaStream_t, cudnnHandle_t> of_streams_;
};

}  // namespace sluice::cuda

#endif  // SLUICE_FRAMEWORK_KERNELS_CUDA_CUDNN_HANDLE_H_
