#include "framework/testing/cuda_emulation/cudnn_descriptor.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/testing/cuda_emulation/cudnn_engines.h"
#include "framework/testing/cuda_emulation/cudnn_rules.h"

namespace sluice::cuda_emulation {
namespace {

constexpr int64_t kMany = int64_t{1} << 30;
// For attributes that are no descriptors, and for operations, of which there are several kinds.
constexpr int kNoKind = -1;

struct AttributeRule {
  cudnnBackendDescriptorType_t descriptor;
  cudnnBackendAttributeName_t name;
  cudnnBackendAttributeType_t type;
  int64_t most = 1;    // values
  int kind = kNoKind;  // of the descriptors that are its values
  bool read_only = false;
};

constexpr auto kTensor = CUDNN_BACKEND_TENSOR_DESCRIPTOR;

#define CONVOLUTION_OPERATION(DESCRIPTOR, NAME, X, W, Y)                                          \
  {CUDNN_BACKEND_OPERATION_CONVOLUTION_##DESCRIPTOR##_DESCRIPTOR,                                 \
   CUDNN_ATTR_OPERATION_CONVOLUTION_##NAME##_CONV_DESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,         \
   CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR},                                                         \
      {CUDNN_BACKEND_OPERATION_CONVOLUTION_##DESCRIPTOR##_DESCRIPTOR,                             \
       CUDNN_ATTR_OPERATION_CONVOLUTION_##NAME##_##X, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, kTensor}, \
      {CUDNN_BACKEND_OPERATION_CONVOLUTION_##DESCRIPTOR##_DESCRIPTOR,                             \
       CUDNN_ATTR_OPERATION_CONVOLUTION_##NAME##_##W, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, kTensor}, \
      {CUDNN_BACKEND_OPERATION_CONVOLUTION_##DESCRIPTOR##_DESCRIPTOR,                             \
       CUDNN_ATTR_OPERATION_CONVOLUTION_##NAME##_##Y, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, kTensor}, \
      {CUDNN_BACKEND_OPERATION_CONVOLUTION_##DESCRIPTOR##_DESCRIPTOR,                             \
       CUDNN_ATTR_OPERATION_CONVOLUTION_##NAME##_ALPHA, CUDNN_TYPE_FLOAT},                        \
  {                                                                                               \
    CUDNN_BACKEND_OPERATION_CONVOLUTION_##DESCRIPTOR##_DESCRIPTOR,                                \
        CUDNN_ATTR_OPERATION_CONVOLUTION_##NAME##_BETA, CUDNN_TYPE_FLOAT                          \
  }

constexpr AttributeRule kRules[] = {
    {kTensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64},
    {kTensor, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE},
    {kTensor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, CUDNN_DIM_MAX},
    {kTensor, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, CUDNN_DIM_MAX},
    {kTensor, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64},
    {kTensor, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN},
    {kTensor, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN},

    {CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE},
    {CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, CUDNN_ATTR_CONVOLUTION_CONV_MODE,
     CUDNN_TYPE_CONVOLUTION_MODE},
    {CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64},
    {CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64,
     CUDNN_DIM_MAX},
    {CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64,
     CUDNN_DIM_MAX},
    {CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64,
     CUDNN_DIM_MAX},
    {CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64,
     CUDNN_DIM_MAX},
    CONVOLUTION_OPERATION(FORWARD, FORWARD, X, W, Y),
    CONVOLUTION_OPERATION(BACKWARD_DATA, BWD_DATA, DX, W, DY),
    CONVOLUTION_OPERATION(BACKWARD_FILTER, BWD_FILTER, X, DW, DY),

    {CUDNN_BACKEND_POINTWISE_DESCRIPTOR, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE},
    {CUDNN_BACKEND_POINTWISE_DESCRIPTOR, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE},
    {CUDNN_BACKEND_POINTWISE_DESCRIPTOR, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64},
    {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, CUDNN_BACKEND_POINTWISE_DESCRIPTOR},
    {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, kTensor},
    {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, kTensor},
    {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, CUDNN_ATTR_OPERATION_POINTWISE_TDESC,
     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, kTensor},
    {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, CUDNN_ATTR_OPERATION_POINTWISE_YDESC,
     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, kTensor},

    {CUDNN_BACKEND_MATMUL_DESCRIPTOR, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE},
    {CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, CUDNN_ATTR_OPERATION_MATMUL_DESC,
     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, CUDNN_BACKEND_MATMUL_DESCRIPTOR},
    {CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, CUDNN_ATTR_OPERATION_MATMUL_ADESC,
     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, kTensor},
    {CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, CUDNN_ATTR_OPERATION_MATMUL_BDESC,
     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, kTensor},
    {CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, CUDNN_ATTR_OPERATION_MATMUL_CDESC,
     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, kTensor},

    {CUDNN_BACKEND_REDUCTION_DESCRIPTOR, CUDNN_ATTR_REDUCTION_OPERATOR,
     CUDNN_TYPE_REDUCTION_OPERATOR_TYPE},
    {CUDNN_BACKEND_REDUCTION_DESCRIPTOR, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE},
    {CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, CUDNN_ATTR_OPERATION_REDUCTION_DESC,
     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, CUDNN_BACKEND_REDUCTION_DESCRIPTOR},
    {CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, CUDNN_ATTR_OPERATION_REDUCTION_XDESC,
     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, kTensor},
    {CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, CUDNN_ATTR_OPERATION_REDUCTION_YDESC,
     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, kTensor},
    {CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR, CUDNN_ATTR_OPERATION_RESHAPE_XDESC,
     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, kTensor},
    {CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR, CUDNN_ATTR_OPERATION_RESHAPE_YDESC,
     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, kTensor},
    {CUDNN_BACKEND_RNG_DESCRIPTOR, CUDNN_ATTR_RNG_DISTRIBUTION, CUDNN_TYPE_RNG_DISTRIBUTION},
    {CUDNN_BACKEND_RNG_DESCRIPTOR, CUDNN_ATTR_RNG_BERNOULLI_DIST_PROBABILITY, CUDNN_TYPE_DOUBLE},
    {CUDNN_BACKEND_OPERATION_RNG_DESCRIPTOR, CUDNN_ATTR_OPERATION_RNG_DESC,
     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, CUDNN_BACKEND_RNG_DESCRIPTOR},
    {CUDNN_BACKEND_OPERATION_RNG_DESCRIPTOR, CUDNN_ATTR_OPERATION_RNG_SEED,
     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, kTensor},
    {CUDNN_BACKEND_OPERATION_RNG_DESCRIPTOR, CUDNN_ATTR_OPERATION_RNG_OFFSET_DESC,
     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, kTensor},
    {CUDNN_BACKEND_OPERATION_RNG_DESCRIPTOR, CUDNN_ATTR_OPERATION_RNG_YDESC,
     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, kTensor},

    {CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE},
    {CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, CUDNN_ATTR_OPERATIONGRAPH_OPS,
     CUDNN_TYPE_BACKEND_DESCRIPTOR, kMany},
    {CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
     CUDNN_TYPE_CHAR, kMany},
    {CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE},
    {CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH,
     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR},
    {CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP,
     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR},
    {CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, CUDNN_ATTR_ENGINEHEUR_RESULTS,
     CUDNN_TYPE_BACKEND_DESCRIPTOR, kMany, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, true},
    {CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR,
     1, CUDNN_BACKEND_ENGINE_DESCRIPTOR, true},
    {CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1,
     kNoKind, true},
    {CUDNN_BACKEND_ENGINE_DESCRIPTOR, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, kNoKind,
     true},
    {CUDNN_BACKEND_ENGINE_DESCRIPTOR, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
     CUDNN_NUMERICAL_NOTE_TYPE_COUNT, kNoKind, true},
    {CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE},
    {CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR},
    {CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
     CUDNN_TYPE_INT64, 1, kNoKind, true},
    {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64,
     kMany},
    {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
     CUDNN_TYPE_VOID_PTR, kMany},
    {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR},
};
#undef CONVOLUTION_OPERATION

size_t BytesOf(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
      return 8;
    case CUDNN_TYPE_BOOLEAN:
    case CUDNN_TYPE_CHAR:
      return 1;
    default:
      return 4;
  }
}

CudnnRefusal BadParam(std::string reason) { return {CUDNN_STATUS_BAD_PARAM, std::move(reason)}; }

// The rule of an attribute, and what the library says before it looks at the values.
CudnnRefusal FindRule(cudnnBackendDescriptorType_t descriptor, cudnnBackendAttributeName_t name,
                      cudnnBackendAttributeType_t type, const AttributeRule** found) {
  for (const AttributeRule& rule : kRules) {
    if (rule.descriptor != descriptor || rule.name != name) continue;
    *found = &rule;
    if (rule.type == type) return {};
    return {CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE,
            absl::StrCat("attribute ", static_cast<int>(name), " has type ",
                         static_cast<int>(rule.type), ", not ", static_cast<int>(type))};
  }
  return BadParam(absl::StrCat("a descriptor of kind ", static_cast<int>(descriptor),
                               " has no attribute ", static_cast<int>(name)));
}

}  // namespace

bool CudnnEngineChoice::Has(cudnnBackendNumericalNote_t note) const {
  return std::find(notes.begin(), notes.end(), note) != notes.end();
}

bool IsCudnnDescriptorType(cudnnBackendDescriptorType_t type) {
  return std::any_of(std::begin(kRules), std::end(kRules),
                     [&](const AttributeRule& rule) { return rule.descriptor == type; });
}

CudnnRefusal CudnnDescriptorData::Set(cudnnBackendAttributeName_t name,
                                      cudnnBackendAttributeType_t type, int64_t count,
                                      const void* values) {
  if (finalized_) return BadParam("the descriptor is finalized");
  const AttributeRule* rule = nullptr;
  CudnnRefusal refusal = FindRule(type_, name, type, &rule);
  if (refusal.refused()) return refusal;
  if (rule->read_only) return BadParam("the attribute is only read");
  if (count < 1 || count > rule->most) {
    return BadParam(absl::StrCat("attribute ", static_cast<int>(name), " has 1 to ", rule->most,
                                 " values, not ", count));
  }
  if (values == nullptr) return BadParam("no values");
  const auto* const bytes = static_cast<const std::byte*>(values);
  if (type != CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    if (type == CUDNN_TYPE_HANDLE && *static_cast<void* const*>(values) == nullptr) {
      return {CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "the handle is null"};
    }
    values_[name].assign(bytes, bytes + count * BytesOf(type));
    return {};
  }
  std::vector<Pointer> descriptors;
  for (int64_t i = 0; i < count; ++i) {
    Pointer found = FindCudnnDescriptor(static_cast<void* const*>(values)[i]);
    if (found == nullptr) return BadParam("no such descriptor");
    if (rule->kind != kNoKind && found->type() != rule->kind) {
      return BadParam(absl::StrCat("attribute ", static_cast<int>(name),
                                   " is a descriptor of kind ", rule->kind, ", not ",
                                   static_cast<int>(found->type())));
    }
    if (name == CUDNN_ATTR_OPERATIONGRAPH_OPS && !found->finalized()) {
      return {CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "an operation is not finalized"};
    }
    descriptors.push_back(std::move(found));
  }
  descriptors_[name] = std::move(descriptors);
  return {};
}

CudnnRefusal CudnnDescriptorData::Get(cudnnBackendAttributeName_t name,
                                      cudnnBackendAttributeType_t type, int64_t most,
                                      int64_t* count, void* values) {
  if (!finalized_) return {CUDNN_STATUS_NOT_INITIALIZED, "the descriptor is not finalized"};
  const AttributeRule* rule = nullptr;
  CudnnRefusal refusal = FindRule(type_, name, type, &rule);
  if (refusal.refused()) return refusal;
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) return GetDescriptors(name, most, count, values);
  std::vector<std::byte> bytes;
  const auto put = [&](const auto* from, size_t size) {
    const auto* const begin = reinterpret_cast<const std::byte*>(from);
    bytes.assign(begin, begin + size);
  };
  if (name == CUDNN_ATTR_ENGINE_GLOBAL_INDEX) {
    put(&engine.index, sizeof engine.index);
  } else if (name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE) {
    put(engine.notes.data(), engine.notes.size() * sizeof engine.notes[0]);
  } else if (rule->read_only) {
    put(&engine.workspace, sizeof engine.workspace);
  } else {
    bytes = values_[name];
  }
  const auto all = static_cast<int64_t>(bytes.size() / BytesOf(type));
  const int64_t some = values == nullptr ? 0 : std::min(most, all);
  if (count != nullptr) *count = some == 0 ? all : some;
  if (some > 0) std::memcpy(values, bytes.data(), static_cast<size_t>(some) * BytesOf(type));
  return {};
}

CudnnRefusal CudnnDescriptorData::GetDescriptors(cudnnBackendAttributeName_t name, int64_t most,
                                                 int64_t* count, void* values) {
  std::vector<CudnnEngineChoice> choices;
  auto kind = CUDNN_BACKEND_ENGINE_DESCRIPTOR;
  if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS) {
    kind = CUDNN_BACKEND_ENGINECFG_DESCRIPTOR;
    if (!results_read_) choices = results_;
  } else if (name == CUDNN_ATTR_ENGINECFG_ENGINE) {
    choices = {engine};
  } else {
    return BadParam("the emulation does not give this descriptor back");
  }
  const auto all = static_cast<int64_t>(choices.size());
  if (most == 0 || values == nullptr) {
    if (count != nullptr) *count = all;
    return {};
  }
  const int64_t some = std::min(most, all);
  for (int64_t i = 0; i < some; ++i) {
    const auto to = FindCudnnDescriptor(static_cast<void* const*>(values)[i]);
    if (to == nullptr || to->type() != kind) return BadParam("no descriptor to write to");
    to->engine = choices[static_cast<size_t>(i)];
    to->graph = type_ == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR
                    ? Descriptor(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH)
                    : graph;
    to->finalized_ = true;
  }
  if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS) results_read_ = true;
  if (count != nullptr) *count = some;
  return {};
}

CudnnRefusal CudnnDescriptorData::Finalize() {
  if (finalized_) return BadParam("the descriptor is finalized");
  CudnnRefusal refusal = CheckCudnnDescriptor(*this);
  if (refusal.refused()) return refusal;
  if (type_ == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR) {
    refusal = ChooseCudnnEngines(*this, &results_);
    if (refusal.refused()) return refusal;
  } else if (type_ == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) {
    const Pointer configuration = Descriptor(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
    engine = configuration->engine;
    graph = configuration->graph;
  }
  finalized_ = true;
  return {};
}

std::vector<CudnnDescriptorData::Pointer> CudnnDescriptorData::Descriptors(
    cudnnBackendAttributeName_t name) const {
  const auto found = descriptors_.find(name);
  return found == descriptors_.end() ? std::vector<Pointer>() : found->second;
}

CudnnDescriptorData::Pointer CudnnDescriptorData::Descriptor(
    cudnnBackendAttributeName_t name) const {
  const std::vector<Pointer> found = Descriptors(name);
  return found.empty() ? nullptr : found[0];
}

}  // namespace sluice::cuda_emulation
