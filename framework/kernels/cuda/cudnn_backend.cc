#include "framework/kernels/cuda/cudnn_backend.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"

namespace sluice::cuda {

absl::Status CudnnBackend::ToStatus(cudnnStatus_t status, const char* what) const {
  if (status == CUDNN_STATUS_SUCCESS) return absl::OkStatus();
  char words[512] = "";
  last_error(words, sizeof(words));
  std::replace(words, words + sizeof(words), '\n', ' ');
  const std::string message =
      absl::StrCat("cuDNN: ", what, ": error ", static_cast<int>(status), ", ", words);
  switch (CUDNN_STATUS_CATEGORY(status)) {
    case CUDNN_STATUS_BAD_PARAM:
      return absl::InvalidArgumentError(message);
    case CUDNN_STATUS_NOT_SUPPORTED:
      return absl::UnimplementedError(message);
    default:
      return absl::InternalError(message);
  }
}

CudnnDescriptor::CudnnDescriptor(const CudnnBackend& backend, cudnnBackendDescriptorType_t type)
    : backend_(backend) {
  status_ = backend_.ToStatus(backend_.create(type, &handle_), "creating a descriptor");
}

CudnnDescriptor::~CudnnDescriptor() {
  if (handle_ != nullptr) backend_.destroy(handle_);
}

CudnnDescriptor::CudnnDescriptor(CudnnDescriptor&& other) noexcept
    : backend_(other.backend_),
      handle_(std::exchange(other.handle_, nullptr)),
      status_(std::move(other.status_)) {}

void CudnnDescriptor::SetArray(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                               int64_t count, const void* values) {
  if (!status_.ok()) return;
  status_ = backend_.ToStatus(backend_.set(handle_, name, type, count, values),
                              absl::StrCat("attribute ", static_cast<int>(name)).c_str());
}

absl::Status CudnnDescriptor::GetArray(cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t most,
                                       int64_t* count, void* values) const {
  RETURN_IF_ERROR(status_);
  return backend_.ToStatus(backend_.get(handle_, name, type, most, count, values),
                           absl::StrCat("reading attribute ", static_cast<int>(name)).c_str());
}

absl::Status CudnnDescriptor::Finish() {
  if (status_.ok()) status_ = backend_.ToStatus(backend_.finalize(handle_), "finishing");
  return status_;
}

absl::StatusOr<std::vector<CudnnDescriptor>> CudnnDescriptor::GetDescriptors(
    cudnnBackendAttributeName_t name, cudnnBackendDescriptorType_t type, int64_t most) const {
  std::vector<CudnnDescriptor> made;
  std::vector<cudnnBackendDescriptor_t> handles;
  for (int64_t i = 0; i < most; ++i) {
    made.emplace_back(backend_, type);
    RETURN_IF_ERROR(made.back().status_);
    handles.push_back(made.back().handle_);
  }
  int64_t count = 0;
  RETURN_IF_ERROR(GetArray(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, most, &count, handles.data()));
  while (static_cast<int64_t>(made.size()) > count) made.pop_back();
  return made;
}

}  // namespace sluice::cuda
