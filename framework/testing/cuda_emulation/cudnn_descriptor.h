// What stands behind the descriptors of the emulated cuDNN: attributes by name, which nobody may
// change once the descriptor is finalized. Which attributes a kind of descriptor has is a table in
// cudnn_descriptor.cc; what is checked when it is finalized stands in cudnn_rules.h.
#ifndef SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_CUDNN_DESCRIPTOR_H_
#define SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_CUDNN_DESCRIPTOR_H_

#include <cudnn.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace sluice::cuda_emulation {

struct CudnnRefusal {
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
  std::string reason;
  bool refused() const { return status != CUDNN_STATUS_SUCCESS; }
};

// A way to compute a graph, as the heuristic offers it.
struct CudnnEngineChoice {
  int64_t index = 0, workspace = 0;
  std::vector<cudnnBackendNumericalNote_t> notes;
  bool Has(cudnnBackendNumericalNote_t note) const;
};

class CudnnDescriptorData {
 public:
  using Pointer = std::shared_ptr<const CudnnDescriptorData>;

  explicit CudnnDescriptorData(cudnnBackendDescriptorType_t type) : type_(type) {}

  cudnnBackendDescriptorType_t type() const { return type_; }
  bool finalized() const { return finalized_; }

  CudnnRefusal Set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                   int64_t count, const void* values);
  // At most `most` values, `*count` of them. Descriptors are copied into those that `values` has.
  CudnnRefusal Get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t most,
                   int64_t* count, void* values);
  CudnnRefusal Finalize();

  // For the rules. Attributes that nobody has set have no values.
  template <typename T>
  std::vector<T> Values(cudnnBackendAttributeName_t name) const {
    const auto found = values_.find(name);
    if (found == values_.end()) return {};
    std::vector<T> values(found->second.size() / sizeof(T));
    std::memcpy(values.data(), found->second.data(), values.size() * sizeof(T));
    return values;
  }
  template <typename T>
  T Value(cudnnBackendAttributeName_t name, T otherwise) const {
    const std::vector<T> values = Values<T>(name);
    return values.empty() ? otherwise : values[0];
  }
  std::vector<Pointer> Descriptors(cudnnBackendAttributeName_t name) const;
  Pointer Descriptor(cudnnBackendAttributeName_t name) const;

  // Of an engine, of its configuration and of a plan.
  CudnnEngineChoice engine;
  // What an engine was chosen for, by the heuristic.
  Pointer graph;

 private:
  CudnnRefusal GetDescriptors(cudnnBackendAttributeName_t name, int64_t most, int64_t* count,
                              void* values);

  const cudnnBackendDescriptorType_t type_;
  bool finalized_ = false;
  std::map<cudnnBackendAttributeName_t, std::vector<std::byte>> values_;
  std::map<cudnnBackendAttributeName_t, std::vector<Pointer>> descriptors_;
  // Of a heuristic; handed out once.
  std::vector<CudnnEngineChoice> results_;
  bool results_read_ = false;
};

// Null: no such descriptor.
std::shared_ptr<CudnnDescriptorData> FindCudnnDescriptor(const void* handle);

// Whether there are rules for the kind.
bool IsCudnnDescriptorType(cudnnBackendDescriptorType_t type);

}  // namespace sluice::cuda_emulation

#endif  // SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_CUDNN_DESCRIPTOR_H_
