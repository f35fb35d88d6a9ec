// cuDNN's backend interface: descriptors, of which graphs of operations are made. The library is
// opened by name, or is the emulation, which is linked; no GPU is needed to make descriptors and to
// ask about them. A descriptor belongs to one thread at a time.
#ifndef SLUICE_FRAMEWORK_KERNELS_CUDA_CUDNN_BACKEND_H_
#define SLUICE_FRAMEWORK_KERNELS_CUDA_CUDNN_BACKEND_H_

#include <cudnn.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace sluice::cuda {

// The functions, found once; any thread.
struct CudnnBackend {
  // Errors as of CudaLibrary::Cudnn.
  static absl::StatusOr<const CudnnBackend*> Load();
  // Engines that are compiled when they are chosen ask for a driver before they say what they can.
  // Where there is none, the toolkit's stand-in for linking, which has the driver's name, will do.
  // Only for programs that ask and compute nothing.
  static absl::Status OpenDriverOrStandIn();

  // OK, or what went wrong, with cuDNN's own words: Unimplemented where cuDNN does not support what
  // was asked for, InvalidArgument where we have asked for nonsense.
  absl::Status ToStatus(cudnnStatus_t status, const char* what) const;

  int64_t version = 0;
  decltype(&cudnnCreate) create_handle = nullptr;
  decltype(&cudnnDestroy) destroy_handle = nullptr;
  decltype(&cudnnSetStream) set_stream = nullptr;
  decltype(&cudnnBackendCreateDescriptor) create = nullptr;
  decltype(&cudnnBackendDestroyDescriptor) destroy = nullptr;
  decltype(&cudnnBackendFinalize) finalize = nullptr;
  decltype(&cudnnBackendSetAttribute) set = nullptr;
  decltype(&cudnnBackendGetAttribute) get = nullptr;
  decltype(&cudnnBackendExecute) execute = nullptr;
  decltype(&cudnnGetLastErrorString) last_error = nullptr;
};

// How the interface calls a C++ type.
template <typename T>
struct CudnnTypeOf;
#define SLUICE_CUDNN_TYPE(type, name)                                       \
  template <>                                                               \
  struct CudnnTypeOf<type> {                                                \
    static constexpr cudnnBackendAttributeType_t kType = CUDNN_TYPE_##name; \
  };
SLUICE_CUDNN_TYPE(bool, BOOLEAN)
SLUICE_CUDNN_TYPE(char, CHAR)
SLUICE_CUDNN_TYPE(int64_t, INT64)
SLUICE_CUDNN_TYPE(float, FLOAT)
SLUICE_CUDNN_TYPE(double, DOUBLE)
SLUICE_CUDNN_TYPE(cudnnHandle_t, HANDLE)
SLUICE_CUDNN_TYPE(cudnnDataType_t, DATA_TYPE)
SLUICE_CUDNN_TYPE(cudnnConvolutionMode_t, CONVOLUTION_MODE)
SLUICE_CUDNN_TYPE(cudnnPointwiseMode_t, POINTWISE_MODE)
SLUICE_CUDNN_TYPE(cudnnReduceTensorOp_t, REDUCTION_OPERATOR_TYPE)
SLUICE_CUDNN_TYPE(cudnnRngDistribution_t, RNG_DISTRIBUTION)
SLUICE_CUDNN_TYPE(cudnnBackendHeurMode_t, HEUR_MODE)
SLUICE_CUDNN_TYPE(cudnnBackendNumericalNote_t, NUMERICAL_NOTE)
SLUICE_CUDNN_TYPE(cudnnBackendDescriptor_t, BACKEND_DESCRIPTOR)
#undef SLUICE_CUDNN_TYPE

// One descriptor. The first error of making it and setting it up is kept, and given by Finish.
class CudnnDescriptor {
 public:
  CudnnDescriptor(const CudnnBackend& backend, cudnnBackendDescriptorType_t type);
  ~CudnnDescriptor();
  CudnnDescriptor(CudnnDescriptor&& other) noexcept;
  CudnnDescriptor& operator=(CudnnDescriptor&&) = delete;

  template <typename T>
  void Set(cudnnBackendAttributeName_t name, const T& value) {
    SetArray(name, CudnnTypeOf<T>::kType, 1, &value);
  }
  template <typename T>
  void SetAll(cudnnBackendAttributeName_t name, absl::Span<const T> values) {
    SetArray(name, CudnnTypeOf<T>::kType, static_cast<int64_t>(values.size()), values.data());
  }
  // Addresses, which have the C++ type of descriptors.
  void SetAddresses(cudnnBackendAttributeName_t name, absl::Span<void* const> addresses) {
    SetArray(name, CUDNN_TYPE_VOID_PTR, static_cast<int64_t>(addresses.size()), addresses.data());
  }
  // No attribute may be set any more.
  absl::Status Finish();

  template <typename T>
  absl::StatusOr<T> Get(cudnnBackendAttributeName_t name) const {
    T value = {};
    int64_t count = 0;
    const absl::Status status = GetArray(name, CudnnTypeOf<T>::kType, 1, &count, &value);
    if (!status.ok()) return status;
    return value;
  }
  // At most `most` of them.
  template <typename T>
  absl::StatusOr<std::vector<T>> GetAll(cudnnBackendAttributeName_t name, int64_t most) const {
    std::vector<T> values(static_cast<size_t>(most));
    int64_t count = 0;
    const absl::Status status = GetArray(name, CudnnTypeOf<T>::kType, most, &count, values.data());
    if (!status.ok()) return status;
    values.resize(static_cast<size_t>(count));
    return values;
  }
  // Descriptors of another kind that this one fills in.
  absl::StatusOr<std::vector<CudnnDescriptor>> GetDescriptors(cudnnBackendAttributeName_t name,
                                                              cudnnBackendDescriptorType_t type,
                                                              int64_t most) const;

  cudnnBackendDescriptor_t handle() const { return handle_; }

 private:
  void SetArray(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
                const void* values);
  absl::Status GetArray(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                        int64_t most, int64_t* count, void* values) const;

  const CudnnBackend& backend_;
  cudnnBackendDescriptor_t handle_ = nullptr;
  absl::Status status_;
};

}  // namespace sluice::cuda

#endif  // SLUICE_FRAMEWORK_KERNELS_CUDA_CUDNN_BACKEND_H_
