// cuDNN on CPU: its functions. What stands behind descriptors is in cudnn_descriptor.h.
#include "framework/testing/cuda_emulation/cudnn.h"

#include <cudnn.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/testing/cuda_emulation/cudnn_compute.h"
#include "framework/testing/cuda_emulation/cudnn_descriptor.h"
#include "framework/testing/cuda_emulation/cudnn_engines.h"
#include "framework/testing/cuda_emulation/cudnn_program.h"
#include "framework/testing/cuda_emulation/emulation.h"

// Belongs to the device that was the thread's when it was created.
struct cudnnContext {
  int device;
  int capability;
  cudaStream_t stream = nullptr;
  std::atomic<bool> is_used = false;  // by a thread, now
};

namespace sluice::cuda_emulation {
namespace {

std::atomic<bool> handles_can_be_made = true;

std::string& LastRefusal() {
  static thread_local std::string reason;
  return reason;
}
cudnnStatus_t Refuse(cudnnStatus_t status, std::string reason) {
  LastRefusal() = std::move(reason);
  return status;
}
cudnnStatus_t Answer(const CudnnRefusal& refusal) {
  return refusal.refused() ? Refuse(refusal.status, refusal.reason) : CUDNN_STATUS_SUCCESS;
}

// Handles and descriptors that are alive.
struct Live {
  std::mutex mutex;
  std::set<cudnnHandle_t> handles;
  std::map<const void*, std::shared_ptr<CudnnDescriptorData>> descriptors;
};
Live& AllLive() {
  static Live& live = *new Live();
  return live;
}

bool IsLive(cudnnHandle_t handle) {
  const std::lock_guard<std::mutex> lock(AllLive().mutex);
  return AllLive().handles.count(handle) > 0;
}

// manual, cuDNN's thread safety: no two threads use a handle at a time.
class HandleUse {
 public:
  explicit HandleUse(cudnnHandle_t handle) : handle_(handle) {
    if (handle_->is_used.exchange(true)) ReportError("two threads use a handle of cuDNN at a time");
  }
  ~HandleUse() { handle_->is_used = false; }

 private:
  const cudnnHandle_t handle_;
};

// Reads numbers by value, and says which bytes of the device are read and written.
CudnnRefusal Gather(const CudnnProgram& program, const std::map<int64_t, void*>& pointers,
                    CudnnOperands* operands, std::vector<LibraryAccess>* accesses) {
  std::set<int64_t> seen;
  for (const CudnnOperation& operation : program) {
    for (size_t i = 0; i <= operation.inputs.size(); ++i) {
      const bool written = i == operation.inputs.size();
      const CudnnTensor& tensor = written ? operation.output : operation.inputs[i];
      if (tensor.is_virtual || !seen.insert(tensor.id).second) continue;
      const auto found = pointers.find(tensor.id);
      if (found == pointers.end() || found->second == nullptr) {
        return {CUDNN_STATUS_BAD_PARAM_NULL_POINTER,
                absl::StrCat("the variant pack has no pointer for tensor ", tensor.id)};
      }
      if (tensor.by_value) {
        std::memcpy(&operands->numbers[tensor.id], found->second, sizeof(float));
        continue;
      }
      if (reinterpret_cast<uintptr_t>(found->second) % tensor.alignment != 0) {
        return {CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER,
                absl::StrCat("tensor ", tensor.id, " is not aligned to ", tensor.alignment)};
      }
      operands->pointers.insert(*found);
      accesses->push_back({found->second,
                           static_cast<size_t>(tensor.Span() * BytesOfCudnnType(tensor.type)),
                           written});
    }
  }
  return {};
}

cudnnStatus_t Execute(cudnnHandle_t handle, const CudnnDescriptorData& plan,
                      const CudnnDescriptorData& pack) {
  const auto ids = pack.Values<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto addresses = pack.Values<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  std::map<int64_t, void*> pointers;
  for (size_t i = 0; i < ids.size(); ++i) pointers[ids[i]] = addresses[i];
  const CudnnProgram program = ProgramOf(*plan.graph);
  CudnnOperands operands;
  std::vector<LibraryAccess> accesses;
  const CudnnRefusal refusal = Gather(program, pointers, &operands, &accesses);
  if (refusal.refused()) return Answer(refusal);
  if (plan.engine.workspace > 0) {
    void* const workspace = pack.Value<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, nullptr);
    if (workspace == nullptr) {
      return Refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "the plan needs a workspace");
    }
    // Written: streams that share one are not in order, and that is seen.
    accesses.push_back({workspace, static_cast<size_t>(plan.engine.workspace), true});
  }
  const CudnnEngineChoice engine = plan.engine;
  const cudaError_t enqueued = EnqueueLibraryCall(
      handle->stream,
      {absl::StrCat("cudnnBackendExecute of engine ", engine.index), std::move(accesses),
       [program, engine, operands] { ComputeCudnn(program, engine, operands); }, nullptr});
  return enqueued == cudaSuccess ? CUDNN_STATUS_SUCCESS
                                 : Refuse(CUDNN_STATUS_EXECUTION_FAILED, "the stream failed");
}

}  // namespace

void SetCudnnWorks(bool works) { handles_can_be_made = works; }

std::shared_ptr<CudnnDescriptorData> FindCudnnDescriptor(const void* handle) {
  const std::lock_guard<std::mutex> lock(AllLive().mutex);
  const auto found = AllLive().descriptors.find(handle);
  return found == AllLive().descriptors.end() ? nullptr : found->second;
}

int CapabilityOfCudnnHandle(cudnnHandle_t handle) { return handle->capability; }

extern "C" {

size_t cudnnGetVersion(void) { return CUDNN_MAJOR * 10000 + CUDNN_MINOR * 100 + CUDNN_PATCHLEVEL; }

void cudnnGetLastErrorString(char* message, size_t max_size) {
  if (max_size == 0) return;
  const size_t length = std::min(max_size - 1, LastRefusal().size());
  LastRefusal().copy(message, length);
  message[length] = 0;
}

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  int device = -1;
  cudaDeviceProp properties;
  if (!handles_can_be_made || cudaGetDevice(&device) != cudaSuccess ||
      cudaGetDeviceProperties(&properties, device) != cudaSuccess) {
    return Refuse(CUDNN_STATUS_NOT_INITIALIZED, "cudaGetDeviceCount(&count) != cudaSuccess");
  }
  *handle = new cudnnContext{device, properties.major * 10 + properties.minor};
  const std::lock_guard<std::mutex> lock(AllLive().mutex);
  AllLive().handles.insert(*handle);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  const std::lock_guard<std::mutex> lock(AllLive().mutex);
  if (AllLive().handles.erase(handle) == 0) return CUDNN_STATUS_BAD_PARAM;
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t streamId) {
  if (!IsLive(handle)) return Refuse(CUDNN_STATUS_BAD_PARAM, "no such handle");
  const HandleUse use(handle);
  // It records an event there, which the other waits for.
  int device = 0;
  if (handle->stream != nullptr && handle->stream != streamId &&
      cudaStreamGetDevice(handle->stream, &device) != cudaSuccess) {
    cudaGetLastError();
    ReportError("cudnnSetStream: the stream that the handle leaves has ended");
  }
  handle->stream = streamId;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t descriptorType,
                                           cudnnBackendDescriptor_t* descriptor) {
  if (!IsCudnnDescriptorType(descriptorType)) {
    return Refuse(CUDNN_STATUS_NOT_SUPPORTED, "the emulation has no such kind of descriptor");
  }
  if (descriptor == nullptr) {
    return Refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "nowhere to put a descriptor");
  }
  auto made = std::make_shared<CudnnDescriptorData>(descriptorType);
  *descriptor = made.get();
  const std::lock_guard<std::mutex> lock(AllLive().mutex);
  AllLive().descriptors[made.get()] = std::move(made);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  const std::lock_guard<std::mutex> lock(AllLive().mutex);
  if (AllLive().descriptors.erase(descriptor) == 0) {
    return Refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "nullptr == descriptor");
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  const auto found = FindCudnnDescriptor(descriptor);
  if (found == nullptr) return Refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no such descriptor");
  return Answer(found->Finalize());
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t attributeName,
                                       cudnnBackendAttributeType_t attributeType,
                                       int64_t elementCount, const void* arrayOfElements) {
  const auto found = FindCudnnDescriptor(descriptor);
  if (found == nullptr) return Refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no such descriptor");
  return Answer(found->Set(attributeName, attributeType, elementCount, arrayOfElements));
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const descriptor,
                                       cudnnBackendAttributeName_t attributeName,
                                       cudnnBackendAttributeType_t attributeType,
                                       int64_t requestedElementCount, int64_t* elementCount,
                                       void* arrayOfElements) {
  const auto found = FindCudnnDescriptor(descriptor);
  if (found == nullptr) return Refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no such descriptor");
  return Answer(found->Get(attributeName, attributeType, requestedElementCount, elementCount,
                           arrayOfElements));
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t executionPlan,
                                  cudnnBackendDescriptor_t variantPack) {
  if (!IsLive(handle)) return Refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no such handle");
  const HandleUse use(handle);
  const auto plan = FindCudnnDescriptor(executionPlan);
  const auto pack = FindCudnnDescriptor(variantPack);
  if (plan == nullptr || plan->type() != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR ||
      pack == nullptr || pack->type() != CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR) {
    return Refuse(CUDNN_STATUS_BAD_PARAM, "no plan, or no variant pack");
  }
  if (!plan->finalized() || !pack->finalized()) {
    return Refuse(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "a plan or pack that is not finalized");
  }
  int device = -1;
  if (cudaGetDevice(&device) != cudaSuccess || device != handle->device) {
    return Refuse(CUDNN_STATUS_BAD_PARAM,
                  absl::StrCat("the handle is of device ", handle->device,
                               ", the calling thread's device is ", device));
  }
  return Execute(handle, *plan, *pack);
}

}  // extern "C"

}  // namespace sluice::cuda_emulation
