#include "framework/kernels/cuda/cudnn_backend.h"

namespace sluice::cuda {

absl::StatusOr<const CudnnBackend*> CudnnBackend::Load() {
  static const CudnnBackend backend = {
      static_cast<int64_t>(cudnnGetVersion()),
      cudnnCreate,
      cudnnDestroy,
      cudnnSetStream,
      cudnnBackendCreateDescriptor,
      cudnnBackendDestroyDescriptor,
      cudnnBackendFinalize,
      cudnnBackendSetAttribute,
      cudnnBackendGetAttribute,
      cudnnBackendExecute,
      cudnnGetLastErrorString,
  };
  return &backend;
}

absl::Status CudnnBackend::OpenDriverOrStandIn() { return absl::OkStatus(); }

}  // namespace sluice::cuda
