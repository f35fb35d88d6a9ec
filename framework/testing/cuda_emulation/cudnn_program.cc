#include "framework/testing/cuda_emulation/cudnn_program.h"

#include <algorithm>
#include <initializer_list>

namespace sluice::cuda_emulation {
namespace {

std::array<int64_t, 2> Pair(const CudnnDescriptorData& descriptor,
                            cudnnBackendAttributeName_t name) {
  const std::vector<int64_t> values = descriptor.Values<int64_t>(name);
  std::array<int64_t, 2> pair = {};
  std::copy_n(values.begin(), std::min<size_t>(2, values.size()), pair.begin());
  return pair;
}

void ReadConvolution(const CudnnDescriptorData& of, CudnnOperation* operation) {
  const bool forward = of.type() == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR;
  const bool of_x = of.type() == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR;
  const auto tensor = [&](cudnnBackendAttributeName_t name) {
    return TensorOf(*of.Descriptor(name));
  };
  CudnnDescriptorData::Pointer window;
  cudnnBackendAttributeName_t alpha, beta;
  if (forward) {
    operation->inputs = {tensor(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X),
                         tensor(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W)};
    operation->output = tensor(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y);
    window = of.Descriptor(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC);
    alpha = CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA;
    beta = CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA;
  } else if (of_x) {
    operation->inputs = {tensor(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W),
                         tensor(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY)};
    operation->output = tensor(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX);
    window = of.Descriptor(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC);
    alpha = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA;
    beta = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA;
  } else {
    operation->inputs = {tensor(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X),
                         tensor(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY)};
    operation->output = tensor(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW);
    window = of.Descriptor(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC);
    alpha = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA;
    beta = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA;
  }
  operation->stride = Pair(*window, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
  operation->dilation = Pair(*window, CUDNN_ATTR_CONVOLUTION_DILATIONS);
  operation->before = Pair(*window, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
  operation->after = Pair(*window, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS);
  operation->alpha = of.Value<float>(alpha, 1);
  operation->beta = of.Value<float>(beta, 0);
}

}  // namespace

int64_t BytesOfCudnnType(cudnnDataType_t type) {
  switch (type) {
    case CUDNN_DATA_DOUBLE:
    case CUDNN_DATA_INT64:
      return 8;
    case CUDNN_DATA_FLOAT:
    case CUDNN_DATA_INT32:
      return 4;
    case CUDNN_DATA_HALF:
    case CUDNN_DATA_BFLOAT16:
      return 2;
    case CUDNN_DATA_INT8:
    case CUDNN_DATA_UINT8:
    case CUDNN_DATA_BOOLEAN:
      return 1;
  }
  return 0;
}

int64_t CudnnTensor::Elements() const {
  int64_t elements = 1;
  for (const int64_t dim : dims) elements *= dim;
  return elements;
}

int64_t CudnnTensor::Span() const {
  if (Elements() == 0) return 0;
  int64_t last = 0;
  for (size_t d = 0; d < dims.size(); ++d) last += (dims[d] - 1) * strides[d];
  return last + 1;
}

CudnnTensor TensorOf(const CudnnDescriptorData& of) {
  CudnnTensor tensor;
  tensor.id = of.Value<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID, 0);
  tensor.type = of.Value(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_DATA_FLOAT);
  tensor.dims = of.Values<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
  tensor.strides = of.Values<int64_t>(CUDNN_ATTR_TENSOR_STRIDES);
  tensor.alignment = of.Value<int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 0);
  tensor.is_virtual = of.Value<uint8_t>(CUDNN_ATTR_TENSOR_IS_VIRTUAL, 0) != 0;
  tensor.by_value = of.Value<uint8_t>(CUDNN_ATTR_TENSOR_IS_BY_VALUE, 0) != 0;
  return tensor;
}

bool CudnnOperation::IsConvolution() const {
  return type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR ||
         type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR ||
         type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR;
}
const CudnnTensor& CudnnOperation::x() const {
  return type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR ? output : inputs[0];
}
const CudnnTensor& CudnnOperation::w() const {
  if (type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR) return output;
  return inputs[type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR ? 1 : 0];
}
const CudnnTensor& CudnnOperation::y() const {
  return type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR ? output : inputs[1];
}

CudnnOperation OperationOf(const CudnnDescriptorData& of) {
  CudnnOperation operation;
  operation.type = of.type();
  if (operation.IsConvolution()) {
    ReadConvolution(of, &operation);
    return operation;
  }
  const auto read = [&](std::initializer_list<cudnnBackendAttributeName_t> inputs,
                        cudnnBackendAttributeName_t output) {
    for (const cudnnBackendAttributeName_t name : inputs) {
      const auto found = of.Descriptor(name);
      if (found != nullptr) operation.inputs.push_back(TensorOf(*found));
    }
    operation.output = TensorOf(*of.Descriptor(output));
  };
  switch (of.type()) {
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR: {
      read({CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
            CUDNN_ATTR_OPERATION_POINTWISE_TDESC},
           CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
      const auto how = of.Descriptor(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
      operation.mode = how->Value(CUDNN_ATTR_POINTWISE_MODE, CUDNN_POINTWISE_ADD);
      operation.axis = how->Value<int64_t>(CUDNN_ATTR_POINTWISE_AXIS, -1);
      break;
    }
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
      read({CUDNN_ATTR_OPERATION_MATMUL_ADESC, CUDNN_ATTR_OPERATION_MATMUL_BDESC},
           CUDNN_ATTR_OPERATION_MATMUL_CDESC);
      break;
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
      read({CUDNN_ATTR_OPERATION_REDUCTION_XDESC}, CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
      operation.reduction = of.Descriptor(CUDNN_ATTR_OPERATION_REDUCTION_DESC)
                                ->Value(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_REDUCE_TENSOR_ADD);
      break;
    case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
      read({CUDNN_ATTR_OPERATION_RESHAPE_XDESC}, CUDNN_ATTR_OPERATION_RESHAPE_YDESC);
      break;
    default:
      read({CUDNN_ATTR_OPERATION_RNG_SEED, CUDNN_ATTR_OPERATION_RNG_OFFSET_DESC},
           CUDNN_ATTR_OPERATION_RNG_YDESC);
      operation.probability = of.Descriptor(CUDNN_ATTR_OPERATION_RNG_DESC)
                                  ->Value(CUDNN_ATTR_RNG_BERNOULLI_DIST_PROBABILITY, 1.0);
      break;
  }
  return operation;
}

CudnnProgram ProgramOf(const CudnnDescriptorData& graph) {
  CudnnProgram program;
  for (const auto& operation : graph.Descriptors(CUDNN_ATTR_OPERATIONGRAPH_OPS)) {
    program.push_back(OperationOf(*operation));
  }
  return program;
}

}  // namespace sluice::cuda_emulation
