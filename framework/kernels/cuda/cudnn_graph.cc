#include "framework/kernels/cuda/cudnn_graph.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"

namespace sluice::cuda {
namespace {

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

std::vector<cudnnBackendNumericalNote_t> CudnnNotesWithout(cudnnDataType_t type) {
  std::vector<cudnnBackendNumericalNote_t> notes = {
      CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION};
  if (type == CUDNN_DATA_FLOAT) {
    notes.insert(notes.end(),
                 {CUDNN_NUMERICAL_NOTE_TENSOR_CORE, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS,
                  CUDNN_NUMERICAL_NOTE_WINOGRAD, CUDNN_NUMERICAL_NOTE_FFT});
  }
  return notes;
}

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
  tensor.Set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, kCudnnAlignment);
  tensor.Set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, storage == CudnnStorage::kVirtual);
  tensor.Set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, storage == CudnnStorage::kByValue);
  Finish(tensor);
  return {tensor.handle(), tensors_};
}

CudnnGraph::TensorId CudnnGraph::Number(cudnnDataType_t type) {
  return Tensor({1, 1, 1, 1}, {1, 1, 1, 1}, type, CudnnStorage::kByValue);
}

void CudnnGraph::Convolution(ConvolutionPass pass, const CudnnWindow& window, TensorId x,
                             TensorId w, TensorId y) {
  CudnnDescriptor& convolution = Add(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  convolution.Set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  convolution.Set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION);
  convolution.Set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, int64_t{2});
  convolution.SetAll<int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, window.strides);
  convolution.SetAll<int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, window.padding);
  convolution.SetAll<int64_t>(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, window.padding);
  convolution.SetAll<int64_t>(CUDNN_ATTR_CONVOLUTION_DILATIONS, window.dilations);
  Finish(convolution);
  const cudnnBackendDescriptor_t described = convolution.handle();

  const PassNames names = NamesOf(pass);
  CudnnDescriptor& operation = Add(names.operation);
  operation.Set(names.convolution, described);
  operation.Set(names.x, x.descriptor);
  operation.Set(names.w, w.descriptor);
  operation.Set(names.y, y.descriptor);
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
  operation.Set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, a.descriptor);
  operation.Set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, b.descriptor);
  operation.Set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, c.descriptor);
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
  for (size_t i = 0; i < inputs.size(); ++i) operation.Set(kInputs[i], inputs[i].descriptor);
  operation.Set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y.descriptor);
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
  operation.Set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x.descriptor);
  operation.Set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y.descriptor);
  AddOperation(operation);
}

void CudnnGraph::Reshape(TensorId x, TensorId y) {
  CudnnDescriptor& operation = Add(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  operation.Set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x.descriptor);
  operation.Set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y.descriptor);
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
  operation.Set(CUDNN_ATTR_OPERATION_RNG_SEED, seed.descriptor);
  operation.Set(CUDNN_ATTR_OPERATION_RNG_OFFSET_DESC, offset.descriptor);
  operation.Set(CUDNN_ATTR_OPERATION_RNG_YDESC, y.descriptor);
  AddOperation(operation);
}

template <typename F>
absl::Status CudnnGraph::Search(const CudnnTarget& target,
                                const std::vector<cudnnBackendNumericalNote_t>& without, F&& fn) {
  RETURN_IF_ERROR(status_);
  CudnnDescriptor card(backend_, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  CudnnDescriptor& graph = Add(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  if (target.handle == nullptr) {
    card.SetAll<char>(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, target.description);
    RETURN_IF_ERROR(AddContext(card.Finish(), "the device's description"));
  } else {
    graph.Set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, target.handle);
  }
  graph.SetAll<cudnnBackendDescriptor_t>(CUDNN_ATTR_OPERATIONGRAPH_OPS, operations_);
  RETURN_IF_ERROR(AddContext(graph.Finish(), "the graph"));
  const cudnnBackendDescriptor_t described = graph.handle();
  absl::Status refusal = absl::UnimplementedError("cuDNN: no engine for the graph");
  bool found = false;
  // The second is a list of what always works, for where the first has nothing that is wanted.
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    if (found) break;
    CudnnDescriptor heuristic(backend_, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    heuristic.Set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, described);
    heuristic.Set(CUDNN_ATTR_ENGINEHEUR_MODE, mode);
    if (target.handle == nullptr) heuristic.Set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, card.handle());
    RETURN_IF_ERROR(AddContext(heuristic.Finish(), "choosing engines"));
    ASSIGN_OR_RETURN(
        std::vector<CudnnDescriptor> configurations,
        heuristic.GetDescriptors(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR,
                                 kMostConfigurations));
    for (CudnnDescriptor& configuration : configurations) {
      absl::StatusOr<CudnnEngine> engine = Usable(configuration, without);
      absl::Status used = engine.status();
      if (used.ok()) used = fn(configuration, *engine);
      if (used.ok()) {
        found = true;
      } else {
        refusal = used;
      }
    }
  }
  return found ? absl::OkStatus() : refusal;
}

absl::StatusOr<std::vector<CudnnEngine>> CudnnGraph::Engines(
    const CudnnTarget& target, const std::vector<cudnnBackendNumericalNote_t>& without) {
  std::vector<CudnnEngine> engines;
  RETURN_IF_ERROR(Search(target, without, [&](CudnnDescriptor&, const CudnnEngine& engine) {
    engines.push_back(engine);
    return absl::OkStatus();
  }));
  return engines;
}

absl::StatusOr<std::shared_ptr<const CudnnPlan>> CudnnGraph::Plan(
    const CudnnTarget& target, const std::vector<cudnnBackendNumericalNote_t>& without,
    int64_t most_workspace) {
  std::vector<CudnnDescriptor> made;  // the plan and its configuration
  CudnnEngine chosen;
  const auto build = [&](CudnnDescriptor& configuration, const CudnnEngine& engine) {
    if (!made.empty()) return absl::OkStatus();
    if (engine.workspace > most_workspace) {
      return absl::UnimplementedError(absl::StrCat("cuDNN: engines want a workspace of ",
                                                   engine.workspace, " bytes, there are ",
                                                   most_workspace));
    }
    CudnnDescriptor plan(backend_, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    if (target.handle != nullptr) plan.Set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, target.handle);
    plan.Set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration.handle());
    const absl::Status built = plan.Finish();
    // What an engine needs beside may not be here: a compiler, a newer driver.
    if (!built.ok()) return absl::UnimplementedError(built.message());
    chosen = engine;
    made.push_back(std::move(plan));
    made.push_back(std::move(configuration));
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(Search(target, without, build));
  const cudnnBackendDescriptor_t plan = made[0].handle();
  for (CudnnDescriptor& part : descriptors_) made.push_back(std::move(part));
  descriptors_.clear();
  return std::make_shared<const CudnnPlan>(backend_, chosen, plan, std::move(made));
}

absl::Status CudnnPlan::Run(cudnnHandle_t handle, absl::Span<const int64_t> tensors,
                            absl::Span<void* const> addresses, void* workspace) const {
  CudnnDescriptor pack(backend_, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.SetAll<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, tensors);
  pack.SetAddresses(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, addresses);
  pack.SetAddresses(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, {&workspace, 1});
  RETURN_IF_ERROR(pack.Finish());
  return backend_.ToStatus(backend_.execute(handle, plan_, pack.handle()), "cudnnBackendExecute");
}

}  // namespace sluice::cuda
