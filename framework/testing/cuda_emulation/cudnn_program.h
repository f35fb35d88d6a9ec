// A graph of cuDNN's operations, read out of its descriptors: what engines are chosen for, and what
// is computed.
#ifndef SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_CUDNN_PROGRAM_H_
#define SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_CUDNN_PROGRAM_H_

#include <cudnn.h>

#include <array>
#include <cstdint>
#include <vector>

#include "framework/testing/cuda_emulation/cudnn_descriptor.h"

namespace sluice::cuda_emulation {

struct CudnnTensor {
  int64_t id = 0;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  std::vector<int64_t> dims, strides;
  int64_t alignment = 0;
  bool is_virtual = false, by_value = false;

  int64_t Elements() const;
  // From the first to the last, in memory.
  int64_t Span() const;
};
// REQUIRES: of the kind of tensors.
CudnnTensor TensorOf(const CudnnDescriptorData& descriptor);

int64_t BytesOfCudnnType(cudnnDataType_t type);

struct CudnnOperation {
  cudnnBackendDescriptorType_t type = CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR;
  // Of a convolution: x, w, y without the one that it makes.
  std::vector<CudnnTensor> inputs;
  CudnnTensor output;

  // Of a convolution.
  std::array<int64_t, 2> stride = {}, dilation = {}, before = {}, after = {};
  float alpha = 1, beta = 0;
  // Of the others.
  cudnnPointwiseMode_t mode = CUDNN_POINTWISE_ADD;
  int64_t axis = -1;
  cudnnReduceTensorOp_t reduction = CUDNN_REDUCE_TENSOR_ADD;
  double probability = 1;  // of a one that is drawn

  bool IsConvolution() const;
  // Of a convolution, whichever of them it makes.
  const CudnnTensor& x() const;
  const CudnnTensor& w() const;
  const CudnnTensor& y() const;
  int64_t groups() const { return x().dims[1] / w().dims[1]; }
};
// REQUIRES: of the kind of operations, and CheckCudnnDescriptor has nothing to say.
CudnnOperation OperationOf(const CudnnDescriptorData& descriptor);

using CudnnProgram = std::vector<CudnnOperation>;
CudnnProgram ProgramOf(const CudnnDescriptorData& graph);

}  // namespace sluice::cuda_emulation

#endif  // SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_CUDNN_PROGRAM_H_
