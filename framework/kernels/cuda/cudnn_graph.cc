#include "framework/kernels/cuda/cudnn_graph.h"

#include <algorithm>
#include <utility>

#include "framework/base/status.h"

namespace sluice::cuda {
namespace {

constexpr int64_t kAlignment = 16;  // the least of any register's start
constexpr int64_t kMostConfigurations = 200;
constexpr int64_t kMostNotes = CUDNN_NUMERICAL_NOTE_TYPE_COUNT;

// Names of one pass' attributes: of the operands in their order, x, w, y.
struct PassNames {
  cudnnBackendDescriptorType_t operation;
  cudnnBackendAttributeName_t alpha, beta, convolution, x, w, y;
};
PassNames NamesOf(ConvolutionPass pass) {
  switch (pass) {
    case ConvolutionPass::kForward:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y};
    case ConvolutionPass::kInputGradient:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY};
    case ConvolutionPass::kWeightGradient:
      break;
  }
  return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY};
}

// The engine of a configuration, unless it has a note that is not wanted or cannot run.
absl::StatusOr<CudnnEngine> Usable(const CudnnDescriptor& configuration,
                                   const std::vector<cudnnBackendNumericalNote_t>& without) {
  ASSIGN_OR_RETURN(const std::vector<CudnnDescriptor> engines,
                   configuration.GetDescriptors(CUDNN_ATTR_ENGINECFG_ENGINE,
                                                CUDNN_BACKEND_ENGINE_DESCRIPTOR, 1));
  if (engines.empty()) return absl::InternalError("cuDNN: a configuration of no engine");
  ASSIGN_OR_RETURN(const auto notes, engines[0].GetAll<cudnnBackendNumericalNote_t>(
                                         CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, kMostNotes));
  for (const cudnnBackendNumericalNote_t note : notes) {
    if (std::find(without.begin(), without.end(), note) != without.end()) {
      return absl::UnimplementedError("cuDNN: only engines of other numerics");
    }
  }
  CudnnEngine engine;
  ASSIGN_OR_RETURN(engine.index, engines[0].Get<int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX));
  ASSIGN_OR_RETURN(engine.workspace,
                   configuration.Get<int64_t>(CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE));
  return engine;
}

}  // namespace

CudnnDescriptor& CudnnGraph::Add(cudnnBackendDescriptorType_t type) {
  descriptors_.emplace_back(backend_, type);
  return descriptors_.back();
}

void CudnnGraph::Finish(CudnnDescriptor& descriptor) {
  const absl::Status finished = descriptor.Finish();
  if (status_.ok()) status_ = finished;
}

void CudnnGraph::AddOperation(CudnnDescriptor& operation) {
  Finish(operation);
  operations_.push_back(operation.handle());
}

CudnnGraph::TensorId CudnnGraph::Tensor(const std::vector<int64_t>& dims,
                                        const std::vector<int64_t>& strides, cudnnDataType_t type,
                                        CudnnStorage storage) {
  CudnnDescriptor& tensor = Add(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.Set(CUDNN_ATTR_TENSOR_UNIQUE_ID, ++tensors_);
  tensor.Set(CUDNN_ATTR_TENSOR_DATA_TYPE, type);
  tensor.SetAll<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS, dims);
  tensor.SetAll<int64_t>(CUDNN_ATTR_TENSOR_STRIDES, strides);
  tensor.Set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, kAlignment);
  tensor.Set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, storage == CudnnStorage::kVirtual);
  tensor.Set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, storage == CudnnStorage::kByValue);
  Finish(tensor);
  return tensor.handle();
}

CudnnGraph::TensorId CudnnGraph::Number(cudnnDataType_t type) {
  return Tensor({1, 1, 1, 1}, {1, 1, 1, 1}, type, CudnnStorage::kByValue);
}

void CudnnGraph::Convolution(ConvolutionPass pass, int64_t stride, int64_t padding, TensorId x,
                             TensorId w, TensorId y) {
  const std::vector<int64_t> strides(2, stride), paddings(2, padding), dilations(2, 1);
  CudnnDescriptor& convolution = Add(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  convolution.Set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  convolution.Set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION);
  convolution.Set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, int64_t{2});
  convolution.SetAll<int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, strides);
  convolution.SetAll<int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, paddings);
  convolution.SetAll<int64_t>(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, paddings);
  convolution.SetAll<int64_t>(CUDNN_ATTR_CONVOLUTION_DILATIONS, dilations);
  Finish(convolution);
  const cudnnBackendDescriptor_t described = convolution.handle();

  const PassNames names = NamesOf(pass);
  CudnnDescriptor& operation = Add(names.operation);
  operation.Set(names.convolution, described);
  operation.Set(names.x, x);
  operation.Set(names.w, w);
  operation.Set(names.y, y);
  operation.Set(names.alpha, 1.0f);
  operation.Set(names.beta, 0.0f);
  AddOperation(operation);
}

void CudnnGraph::Matmul(TensorId a, TensorId b, TensorId c) {
  CudnnDescriptor& matmul = Add(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  matmul.Set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
  Finish(matmul);
  const cudnnBackendDescriptor_t described = matmul.handle();
  CudnnDescriptor& operation = Add(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  operation.Set(CUDNN_ATTR_OPERATION_MATMUL_DESC, described);
  operation.Set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
  operation.Set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
  operation.Set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
  AddOperation(operation);
}

void CudnnGraph::Pointwise(cudnnPointwiseMode_t mode, const std::vector<TensorId>& inputs,
                           TensorId y, cudnnDataType_t compute, int64_t axis) {
  constexpr cudnnBackendAttributeName_t kInputs[] = {CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
                                                     CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
                                                     CUDNN_ATTR_OPERATION_POINTWISE_TDESC};
  CudnnDescriptor& pointwise = Add(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  pointwise.Set(CUDNN_ATTR_POINTWISE_MODE, mode);
  pointwise.Set(CUDNN_ATTR_POINTWISE_MATH_PREC, compute);
  if (axis >= 0) pointwise.Set(CUDNN_ATTR_POINTWISE_AXIS, axis);
  Finish(pointwise);
  const cudnnBackendDescriptor_t described = pointwise.handle();
  CudnnDescriptor& operation = Add(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.Set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, described);
  for (size_t i = 0; i < inputs.size(); ++i) operation.Set(kInputs[i], inputs[i]);
  operation.Set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
  AddOperation(operation);
}

void CudnnGraph::Reduce(cudnnReduceTensorOp_t op, TensorId x, TensorId y) {
  CudnnDescriptor& reduction = Add(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  reduction.Set(CUDNN_ATTR_REDUCTION_OPERATOR, op);
  reduction.Set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  Finish(reduction);
  const cudnnBackendDescriptor_t described = reduction.handle();
  CudnnDescriptor& operation = Add(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  operation.Set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, described);
  operation.Set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
  operation.Set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
  AddOperation(operation);
}

void CudnnGraph::Reshape(TensorId x, TensorId y) {
  CudnnDescriptor& operation = Add(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  operation.Set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
  operation.Set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
  AddOperation(operation);
}

void CudnnGraph::Draw(TensorId seed, TensorId offset, double probability, TensorId y) {
  CudnnDescriptor& random = Add(CUDNN_BACKEND_RNG_DESCRIPTOR);
  random.Set(CUDNN_ATTR_RNG_DISTRIBUTION, CUDNN_RNG_DISTRIBUTION_BERNOULLI);
  random.Set(CUDNN_ATTR_RNG_BERNOULLI_DIST_PROBABILITY, probability);
  Finish(random);
  const cudnnBackendDescriptor_t described = random.handle();
  CudnnDescriptor& operation = Add(CUDNN_BACKEND_OPERATION_RNG_DESCRIPTOR);
  operation.Set(CUDNN_ATTR_OPERATION_RNG_DESC, described);
  operation.Set(CUDNN_ATTR_OPERATION_RNG_SEED, seed);
  operation.Set(CUDNN_ATTR_OPERATION_RNG_OFFSET_DESC, offset);
  operation.Set(CUDNN_ATTR_OPERATION_RNG_YDESC, y);
  AddOperation(operation);
}

absl::StatusOr<std::vector<CudnnEngine>> CudnnGraph::Engines(
    const std::string& device, const std::vector<cudnnBackendNumericalNote_t>& without) {
  RETURN_IF_ERROR(status_);
  CudnnDescriptor card(backend_, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  card.SetAll<char>(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, device);
  RETURN_IF_ERROR(AddContext(card.Finish(), "the device's description"));
  CudnnDescriptor graph(backend_, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.SetAll<cudnnBackendDescriptor_t>(CUDNN_ATTR_OPERATIONGRAPH_OPS, operations_);
  RETURN_IF_ERROR(AddContext(graph.Finish(), "the graph"));
  std::vector<CudnnEngine> found;
  absl::Status refusal = absl::UnimplementedError("cuDNN: no engine for the graph");
  // The second is a list of what always works, for where the first has nothing that is wanted.
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    if (!found.empty()) break;
    CudnnDescriptor heuristic(backend_, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    heuristic.Set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph.handle());
    heuristic.Set(CUDNN_ATTR_ENGINEHEUR_MODE, mode);
    heuristic.Set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, card.handle());
    RETURN_IF_ERROR(AddContext(heuristic.Finish(), "choosing engines"));
    ASSIGN_OR_RETURN(
        const std::vector<CudnnDescriptor> configurations,
        heuristic.GetDescriptors(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR,
                                 kMostConfigurations));
    for (const CudnnDescriptor& configuration : configurations) {
      const absl::StatusOr<CudnnEngine> engine = Usable(configuration, without);
      if (engine.ok()) {
        found.push_back(*engine);
      } else {
        refusal = engine.status();
      }
    }
  }
  if (found.empty()) return refusal;
  return found;
}

}  // namespace sluice::cuda
