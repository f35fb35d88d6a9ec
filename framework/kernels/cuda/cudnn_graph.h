// A graph of cuDNN's operations: what is to be computed, for cuDNN to say which of its engines can.
// Products and sums are taken in f32, whatever the tensors are. One thread at a time.
//
//   CudnnGraph graph(*backend);
//   const auto x = graph.Tensor({dims}, {strides}, CUDNN_DATA_BFLOAT16);
//   ...
//   graph.Convolution(ConvolutionPass::kForward, {stride, padding}, x, w, y);
//   ASSIGN_OR_RETURN(const std::vector<CudnnEngine> engines, graph.Engines(device, {}));
#ifndef SLUICE_FRAMEWORK_KERNELS_CUDA_CUDNN_GRAPH_H_
#define SLUICE_FRAMEWORK_KERNELS_CUDA_CUDNN_GRAPH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/kernels/cuda/cudnn_backend.h"

namespace sluice::cuda {

enum class ConvolutionPass { kForward, kInputGradient, kWeightGradient };

// Where the bytes of a tensor are.
enum class CudnnStorage {
  kMemory,
  kVirtual,  // nowhere: between two operations of the graph
  kByValue,  // a number that the caller gives with the pointers
};

// One way to compute the graph.
struct CudnnEngine {
  int64_t index = 0;      // cuDNN's number of the engine, which several ways may share
  int64_t workspace = 0;  // bytes
};

class CudnnGraph {
 public:
  using TensorId = cudnnBackendDescriptor_t;

  explicit CudnnGraph(const CudnnBackend& backend) : backend_(backend) {}

  TensorId Tensor(const std::vector<int64_t>& dims, const std::vector<int64_t>& strides,
                  cudnnDataType_t type, CudnnStorage storage = CudnnStorage::kMemory);
  // Like another, in the same order of dimensions.
  TensorId Number(cudnnDataType_t type);

  // x is [n, c, h, w], w [out, in, h, w] whatever their strides are; the pass says which of the
  // three is made.
  void Convolution(ConvolutionPass pass, int64_t stride, int64_t padding, TensorId x, TensorId w,
                   TensorId y);
  void Matmul(TensorId a, TensorId b, TensorId c);
  // Of one to three inputs. GEN_INDEX numbers the places along `axis`.
  void Pointwise(cudnnPointwiseMode_t mode, const std::vector<TensorId>& inputs, TensorId y,
                 cudnnDataType_t compute = CUDNN_DATA_FLOAT, int64_t axis = -1);
  void Reduce(cudnnReduceTensorOp_t op, TensorId x, TensorId y);
  void Reshape(TensorId x, TensorId y);
  // Ones with this probability, else zeros, of cuDNN's own numbers.
  void Draw(TensorId seed, TensorId offset, double probability, TensorId y);

  // What runs the graph on a device, the fastest first as cuDNN guesses; engines of any of these
  // notes are left out. Unimplemented with cuDNN's words if it has none. `device` is a description
  // that the library has written of a card, or that is written like one.
  absl::StatusOr<std::vector<CudnnEngine>> Engines(
      const std::string& device, const std::vector<cudnnBackendNumericalNote_t>& without);

 private:
  CudnnDescriptor& Add(cudnnBackendDescriptorType_t type);
  void Finish(CudnnDescriptor& descriptor);
  // The descriptor of an operation is finished and added to the graph.
  void AddOperation(CudnnDescriptor& operation);

  const CudnnBackend& backend_;
  std::vector<CudnnDescriptor> descriptors_;
  std::vector<cudnnBackendDescriptor_t> operations_;
  int64_t tensors_ = 0;
  absl::Status status_;  // the first error
};

}  // namespace sluice::cuda

#endif  // SLUICE_FRAMEWORK_KERNELS_CUDA_CUDNN_GRAPH_H_
