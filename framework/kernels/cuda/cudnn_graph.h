// A graph of cuDNN's operations: what is to be computed, for cuDNN to say which of its engines can.
// Products and sums are taken in f32, whatever the tensors are. One thread at a time.
//
//   CudnnGraph graph(*backend);
//   const auto x = graph.Tensor({dims}, {strides}, CUDNN_DATA_BFLOAT16);
//   ...
//   graph.Convolution(ConvolutionPass::kForward, {strides, padding, dilations}, x, w, y);
//   ASSIGN_OR_RETURN(const std::vector<CudnnEngine> engines, graph.Engines(target, without));
#ifndef SLUICE_FRAMEWORK_KERNELS_CUDA_CUDNN_GRAPH_H_
#define SLUICE_FRAMEWORK_KERNELS_CUDA_CUDNN_GRAPH_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/kernels/convolution_shape.h"
#include "framework/kernels/cuda/cudnn_backend.h"

namespace sluice::cuda {

// In bytes, of where each tensor of a graph in memory begins: what a kernel has to know of its
// operands (KernelSpec::alignment).
inline constexpr int64_t kCudnnAlignment = 16;

// Where the bytes of a tensor are.
enum class CudnnStorage {
  kMemory,
  kVirtual,  // nowhere: between two operations of the graph
  kByValue,  // a number that the caller gives with the pointers
};

// Along height and width.
struct CudnnWindow {
  std::array<int64_t, 2> strides, padding, dilations;
};

// The card that engines are for: the one of a handle, or one that need not be here, described as
// the library describes a card or in the same words.
struct CudnnTarget {
  cudnnHandle_t handle = nullptr;
  std::string description;
};

// Results are to be the same from run to run, and f32 is to be f32: no tensor cores, and no detours
// (by FFT, by Winograd's products) that round more than the sum itself does. These are the engines
// that a graph of such operands leaves out.
std::vector<cudnnBackendNumericalNote_t> CudnnNotesWithout(cudnnDataType_t type);

// One way to compute the graph.
struct CudnnEngine {
  int64_t index = 0;      // cuDNN's number of the engine, which several ways may share
  int64_t workspace = 0;  // bytes
};

// A graph that may be run: an engine was chosen and built. Any thread.
class CudnnPlan {
 public:
  CudnnPlan(const CudnnBackend& backend, CudnnEngine engine, cudnnBackendDescriptor_t plan,
            std::vector<CudnnDescriptor> parts)
      : backend_(backend), engine_(engine), plan_(plan), parts_(std::move(parts)) {}

  const CudnnEngine& engine() const { return engine_; }
  // Gives the work to the stream of the handle, which is of the card that the plan is for. Tensors
  // have the numbers that CudnnGraph gave them.
  absl::Status Run(cudnnHandle_t handle, absl::Span<const int64_t> tensors,
                   absl::Span<void* const> addresses, void* workspace) const;

 private:
  const CudnnBackend& backend_;
  const CudnnEngine engine_;
  const cudnnBackendDescriptor_t plan_;
  const std::vector<CudnnDescriptor> parts_;  // the plan, and what it was made of
};

class CudnnGraph {
 public:
  struct TensorId {
    cudnnBackendDescriptor_t descriptor = nullptr;
    int64_t number = 0;  // from 1
  };

  explicit CudnnGraph(const CudnnBackend& backend) : backend_(backend) {}

  TensorId Tensor(const std::vector<int64_t>& dims, const std::vector<int64_t>& strides,
                  cudnnDataType_t type, CudnnStorage storage = CudnnStorage::kMemory);
  // Like another, in the same order of dimensions.
  TensorId Number(cudnnDataType_t type);

  // x is [n, c, h, w], w [out, in, h, w] whatever their strides are; the pass says which of the
  // three is made.
  void Convolution(ConvolutionPass pass, const CudnnWindow& window, TensorId x, TensorId w,
                   TensorId y);
  void Matmul(TensorId a, TensorId b, TensorId c);
  // Of one to three inputs. GEN_INDEX numbers the places along `axis`.
  void Pointwise(cudnnPointwiseMode_t mode, const std::vector<TensorId>& inputs, TensorId y,
                 cudnnDataType_t compute = CUDNN_DATA_FLOAT, int64_t axis = -1);
  void Reduce(cudnnReduceTensorOp_t op, TensorId x, TensorId y);
  void Reshape(TensorId x, TensorId y);
  // Ones with this probability, else zeros, of cuDNN's own numbers.
  void Draw(TensorId seed, TensorId offset, double probability, TensorId y);

  // What runs the graph on a card, the fastest first as cuDNN guesses; engines of any of these
  // notes are left out. Unimplemented with cuDNN's words if it has none.
  absl::StatusOr<std::vector<CudnnEngine>> Engines(
      const CudnnTarget& target, const std::vector<cudnnBackendNumericalNote_t>& without);

  // The first of these whose workspace is at most so large, and which can be built. No time is
  // measured, so that it is the same on every rank. The graph is part of it and takes no more
  // operations. Unimplemented if there is none.
  absl::StatusOr<std::shared_ptr<const CudnnPlan>> Plan(
      const CudnnTarget& target, const std::vector<cudnnBackendNumericalNote_t>& without,
      int64_t most_workspace);

 private:
  CudnnDescriptor& Add(cudnnBackendDescriptorType_t type);
  void Finish(CudnnDescriptor& descriptor);
  // The descriptor of an operation is finished and added to the graph.
  void AddOperation(CudnnDescriptor& operation);
  // fn(configuration, its engine) for all that have no such note; OK if it was OK for one, else
  // what was wrong with the last.
  template <typename F>
  absl::Status Search(const CudnnTarget& target,
                      const std::vector<cudnnBackendNumericalNote_t>& without, F&& fn);

  const CudnnBackend& backend_;
  std::vector<CudnnDescriptor> descriptors_;
  std::vector<cudnnBackendDescriptor_t> operations_;
  int64_t tensors_ = 0;
  absl::Status status_;  // the first error
};

}  // namespace sluice::cuda

#endif  // SLUICE_FRAMEWORK_KERNELS_CUDA_CUDNN_GRAPH_H_
