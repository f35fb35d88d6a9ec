#include "framework/testing/cuda_emulation/cudnn_rules.h"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/testing/cuda_emulation/cudnn_pattern.h"
#include "framework/testing/cuda_emulation/cudnn_program.h"

namespace sluice::cuda_emulation {
namespace {

CudnnRefusal BadParam(std::string reason) { return {CUDNN_STATUS_BAD_PARAM, std::move(reason)}; }

bool HasAll(const CudnnDescriptorData& of,
            std::initializer_list<cudnnBackendAttributeName_t> names) {
  return std::all_of(names.begin(), names.end(), [&](cudnnBackendAttributeName_t name) {
    return !of.Values<std::byte>(name).empty() || of.Descriptor(name) != nullptr;
  });
}

CudnnRefusal CheckTensor(const CudnnDescriptorData& of) {
  const CudnnTensor tensor = TensorOf(of);
  if (tensor.dims.size() != tensor.strides.size()) {
    return BadParam(absl::StrCat("_nbDims != _nbStrides: ", tensor.dims.size(), " dimensions and ",
                                 tensor.strides.size(), " strides"));
  }
  // The library takes a tensor without these for one of f32, of number 0.
  if (tensor.dims.empty() ||
      !HasAll(of, {CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_ATTR_TENSOR_DATA_TYPE})) {
    return BadParam("a tensor without dimensions, unique id or data type");
  }
  for (size_t d = 0; d < tensor.dims.size(); ++d) {
    if (tensor.dims[d] < 0) return BadParam("_dimA[d] < 0");
    if (tensor.strides[d] < 0) return BadParam("_strA[d] < 0");
  }
  if (tensor.alignment <= 0 || tensor.alignment % BytesOfCudnnType(tensor.type) != 0) {
    return BadParam(absl::StrCat("(_ptrAlignment <= 0) || _ptrAlignment % sizeofCudnnType != 0: ",
                                 tensor.alignment));
  }
  if (tensor.by_value && tensor.Elements() > 1) return BadParam("isByValue && (dimCnt > 1)");
  if (tensor.by_value && tensor.is_virtual) return BadParam("by value and virtual");
  return {};
}

CudnnRefusal CheckWindow(const CudnnDescriptorData& of) {
  const auto dims = of.Value<int64_t>(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 0);
  const auto check = [&](cudnnBackendAttributeName_t name, int64_t least, bool needed) {
    const std::vector<int64_t> values = of.Values<int64_t>(name);
    if (values.empty() && !needed) return true;
    return static_cast<int64_t>(values.size()) == dims &&
           std::all_of(values.begin(), values.end(), [&](int64_t v) { return v >= least; });
  };
  if (dims != 2 || !check(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, 1, true) ||
      !check(CUDNN_ATTR_CONVOLUTION_DILATIONS, 1, true) ||
      !check(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, 0, false) ||
      !check(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, 0, false)) {
    return BadParam("finalize_internal(): strides, dilations or paddings of a convolution");
  }
  if (of.Value(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_INT64) != CUDNN_DATA_FLOAT) {
    return BadParam("the emulation sums up convolutions in f32 alone");
  }
  return {};
}

// Whether the descriptors under the names are there and finalized.
CudnnRefusal CheckParts(const CudnnDescriptorData& of,
                        std::initializer_list<cudnnBackendAttributeName_t> names) {
  for (const cudnnBackendAttributeName_t name : names) {
    const auto found = of.Descriptor(name);
    if (found == nullptr || !found->finalized()) {
      return BadParam(
          absl::StrCat("attribute ", static_cast<int>(name), ": !isFinalized(), or not there"));
    }
  }
  return {};
}

CudnnRefusal CheckConvolution(const CudnnDescriptorData& of) {
  CudnnRefusal parts;
  switch (of.type()) {
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
      parts = CheckParts(of, {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y});
      break;
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
      parts = CheckParts(of, {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY});
      break;
    default:
      parts = CheckParts(of, {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY});
  }
  if (parts.refused()) return parts;
  const CudnnOperation operation = OperationOf(of);
  const std::vector<int64_t>&x = operation.x().dims, &w = operation.w().dims,
        &y = operation.y().dims;
  if (x.size() != 4 || w.size() != 4 || y.size() != 4) {
    return BadParam("nb_spatial_dims > nb_tensor_dims - 2");
  }
  if (w[1] == 0 || x[1] == 0 || x[1] % w[1] != 0) {
    return BadParam("(0 == wDimA[1]) || (0 == xDimA[1]) || (0 != xDimA[1] % wDimA[1])");
  }
  if (y[0] != x[0]) return BadParam("yDimA[N_DIM] != xDimA[N_DIM]");
  if (y[1] != w[0]) return BadParam("yDesc.getVectCount() * yDimA[CK_DIM] != wDimA[WK_DIM]");
  for (size_t d = 0; d < 2; ++d) {
    const int64_t read = x[d + 2] + operation.before[d] + operation.after[d] -
                         operation.dilation[d] * (w[d + 2] - 1) - 1;
    if (read < 0 || read / operation.stride[d] + 1 != y[d + 2]) {
      return BadParam(absl::StrCat("is_valid_spatial_dim(): dimension ", d));
    }
  }
  return {};
}

CudnnRefusal CheckOther(const CudnnDescriptorData& of) {
  switch (of.type()) {
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
      return CheckParts(
          of, {CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
               CUDNN_ATTR_OPERATION_POINTWISE_YDESC});
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
      return CheckParts(of, {CUDNN_ATTR_OPERATION_MATMUL_DESC, CUDNN_ATTR_OPERATION_MATMUL_ADESC,
                             CUDNN_ATTR_OPERATION_MATMUL_BDESC, CUDNN_ATTR_OPERATION_MATMUL_CDESC});
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
      return CheckParts(of,
                        {CUDNN_ATTR_OPERATION_REDUCTION_DESC, CUDNN_ATTR_OPERATION_REDUCTION_XDESC,
                         CUDNN_ATTR_OPERATION_REDUCTION_YDESC});
    case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
      return CheckParts(of,
                        {CUDNN_ATTR_OPERATION_RESHAPE_XDESC, CUDNN_ATTR_OPERATION_RESHAPE_YDESC});
    case CUDNN_BACKEND_OPERATION_RNG_DESCRIPTOR:
      return CheckParts(of, {CUDNN_ATTR_OPERATION_RNG_DESC, CUDNN_ATTR_OPERATION_RNG_SEED,
                             CUDNN_ATTR_OPERATION_RNG_OFFSET_DESC, CUDNN_ATTR_OPERATION_RNG_YDESC});
    default:
      return {};
  }
}

CudnnRefusal CheckGraph(const CudnnDescriptorData& of) {
  const auto operations = of.Descriptors(CUDNN_ATTR_OPERATIONGRAPH_OPS);
  if (operations.empty()) return BadParam("outputGraph.buildDAG(): no operation");
  std::map<int64_t, CudnnTensor> tensors;
  std::set<int64_t> made;
  for (const CudnnOperation& operation : ProgramOf(of)) {
    for (size_t i = 0; i <= operation.inputs.size(); ++i) {
      const bool is_output = i == operation.inputs.size();
      const CudnnTensor& tensor = is_output ? operation.output : operation.inputs[i];
      const auto [known, is_new] = tensors.emplace(tensor.id, tensor);
      // The library takes these for one tensor.
      if (!is_new &&
          (known->second.dims != tensor.dims || known->second.strides != tensor.strides)) {
        return BadParam(absl::StrCat("two tensors of unique id ", tensor.id));
      }
      if (is_output && !made.insert(tensor.id).second) {
        return BadParam("node->linkEdges(peerNode.get()): a tensor that two operations make");
      }
      if (is_output && tensor.by_value) return BadParam("an operation makes a number by value");
      if (!is_output && tensor.is_virtual && made.count(tensor.id) == 0) {
        return BadParam(absl::StrCat("virtual tensor ", tensor.id, " is made by no operation"));
      }
    }
  }
  return {};
}

CudnnRefusal CheckDevice(const CudnnDescriptorData& of) {
  const std::vector<char> text = of.Values<char>(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION);
  // The library then asks the runtime for a device; ours says which it means.
  if (text.empty()) return {CUDNN_STATUS_NOT_INITIALIZED, "no description of a device"};
  if (DeviceVersionIn(std::string(text.begin(), text.end())) == 0) {
    return BadParam("a description of a device without deviceVer");
  }
  return {};
}

CudnnRefusal CheckPack(const CudnnDescriptorData& of) {
  const std::vector<int64_t> ids = of.Values<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  if (of.Values<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS).size() != ids.size()) {
    return BadParam("ptrs_count != uids_count");
  }
  if (std::set<int64_t>(ids.begin(), ids.end()).size() != ids.size()) {
    return BadParam("a unique id twice");
  }
  return {};
}

}  // namespace

CudnnRefusal CheckCudnnDescriptor(const CudnnDescriptorData& of) {
  switch (of.type()) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
      return CheckTensor(of);
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR:
      return CheckWindow(of);
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
      return CheckConvolution(of);
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
      return CheckGraph(of);
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR:
      return CheckPack(of);
    case CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR:
      return CheckDevice(of);
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR: {
      if (!HasAll(of, {CUDNN_ATTR_ENGINEHEUR_MODE})) return BadParam("no mode");
      return CheckParts(of, {CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH});
    }
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR: {
      const auto configuration = of.Descriptor(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
      if (configuration == nullptr || !configuration->finalized()) {
        return {CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "assert_finalized == true"};
      }
      return {};
    }
    case CUDNN_BACKEND_ENGINE_DESCRIPTOR:
    case CUDNN_BACKEND_ENGINECFG_DESCRIPTOR:
      return BadParam("the emulation has engines only of the heuristic");
    default:
      return CheckOther(of);
  }
}

}  // namespace sluice::cuda_emulation
