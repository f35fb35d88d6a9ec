#include <dlfcn.h>

#include <cstdlib>

#include "framework/base/status.h"
#include "framework/device/cuda_library.h"
#include "framework/kernels/cuda/cudnn_backend.h"

namespace sluice::cuda {
namespace {

template <typename Pointer>
absl::Status Find(const CudaLibrary& library, const char* name, Pointer* function) {
  ASSIGN_OR_RETURN(*function, library.Function<Pointer>(name));
  return absl::OkStatus();
}

absl::StatusOr<CudnnBackend> FindAll() {
  ASSIGN_OR_RETURN(const CudaLibrary* library, CudaLibrary::Cudnn());
  CudnnBackend backend;
  backend.version = library->version();
  RETURN_IF_ERROR(Find(*library, "cudnnCreate", &backend.create_handle));
  RETURN_IF_ERROR(Find(*library, "cudnnDestroy", &backend.destroy_handle));
  RETURN_IF_ERROR(Find(*library, "cudnnSetStream", &backend.set_stream));
  RETURN_IF_ERROR(Find(*library, "cudnnBackendCreateDescriptor", &backend.create));
  RETURN_IF_ERROR(Find(*library, "cudnnBackendDestroyDescriptor", &backend.destroy));
  RETURN_IF_ERROR(Find(*library, "cudnnBackendFinalize", &backend.finalize));
  RETURN_IF_ERROR(Find(*library, "cudnnBackendSetAttribute", &backend.set));
  RETURN_IF_ERROR(Find(*library, "cudnnBackendGetAttribute", &backend.get));
  RETURN_IF_ERROR(Find(*library, "cudnnBackendExecute", &backend.execute));
  RETURN_IF_ERROR(Find(*library, "cudnnGetLastErrorString", &backend.last_error));
  return backend;
}

}  // namespace

absl::StatusOr<const CudnnBackend*> CudnnBackend::Load() {
  static const absl::StatusOr<CudnnBackend> backend = FindAll();
  if (!backend.ok()) return backend.status();
  return &*backend;
}

absl::Status CudnnBackend::OpenDriverOrStandIn() {
  constexpr int kMode = RTLD_NOW | RTLD_GLOBAL;
  if (dlopen("libcuda.so.1", kMode) != nullptr) return absl::OkStatus();
  for (const std::string& directory : CudaLibraryDirectories(std::getenv)) {
    if (dlopen((directory + "/stubs/libcuda.so").c_str(), kMode) != nullptr) {
      return absl::OkStatus();
    }
  }
  return absl::NotFoundError("no libcuda.so.1, and no toolkit that has lib64/stubs/libcuda.so");
}

}  // namespace sluice::cuda
