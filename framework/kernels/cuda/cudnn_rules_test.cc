// What cuDNN says to descriptors that are wrong: the library, with --config=cuda, and the emulation
// say the same. Nothing here needs a GPU.
#include <cudnn.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "framework/kernels/cuda/cudnn_backend.h"
#include "framework/kernels/cuda/cudnn_cases.h"
#include "gtest/gtest.h"

namespace sluice::cuda {
namespace {

using Handle = cudnnBackendDescriptor_t;

class CudnnRulesTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto loaded = CudnnBackend::Load();
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    library_ = *loaded;
  }
  void TearDown() override {
    for (const Handle handle : made_) library_->destroy(handle);
  }

  Handle Make(cudnnBackendDescriptorType_t type) {
    Handle handle = nullptr;
    EXPECT_EQ(library_->create(type, &handle), CUDNN_STATUS_SUCCESS);
    made_.push_back(handle);
    return handle;
  }
  template <typename T>
  cudnnStatus_t Set(Handle to, cudnnBackendAttributeName_t name, const std::vector<T>& values) {
    return library_->set(to, name, CudnnTypeOf<T>::kType, static_cast<int64_t>(values.size()),
                         values.data());
  }
  cudnnStatus_t Finalize(Handle handle) { return library_->finalize(handle); }

  struct Tensor {
    std::vector<int64_t> dims = {2, 8, 8, 8}, strides = {512, 1, 64, 8};
    int64_t alignment = 16;
    int64_t id = 1;
    cudnnDataType_t type = CUDNN_DATA_BFLOAT16;
    bool by_value = false;
  };
  Handle Filled(const Tensor& tensor) {
    const Handle handle = Make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    Set<int64_t>(handle, CUDNN_ATTR_TENSOR_UNIQUE_ID, {tensor.id});
    Set<cudnnDataType_t>(handle, CUDNN_ATTR_TENSOR_DATA_TYPE, {tensor.type});
    Set<int64_t>(handle, CUDNN_ATTR_TENSOR_DIMENSIONS, tensor.dims);
    Set<int64_t>(handle, CUDNN_ATTR_TENSOR_STRIDES, tensor.strides);
    Set<int64_t>(handle, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, {tensor.alignment});
    library_->set(handle, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &tensor.by_value);
    return handle;
  }
  cudnnStatus_t Finalized(const Tensor& tensor) { return Finalize(Filled(tensor)); }
  Handle Image(int64_t id, int64_t n, int64_t channels, int64_t side) {
    Tensor tensor;
    tensor.id = id;
    tensor.dims = {n, channels, side, side};
    tensor.strides = {side * side * channels, 1, side * channels, channels};
    const Handle handle = Filled(tensor);
    EXPECT_EQ(Finalize(handle), CUDNN_STATUS_SUCCESS);
    return handle;
  }

  struct Window {
    int64_t dims = 2;
    std::vector<int64_t> strides = {1, 1}, before = {1, 1}, after = {1, 1}, dilations = {1, 1};
  };
  cudnnStatus_t Finalized(const Window& window, Handle* made = nullptr) {
    const Handle handle = Make(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    Set<cudnnDataType_t>(handle, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, {CUDNN_DATA_FLOAT});
    Set<cudnnConvolutionMode_t>(handle, CUDNN_ATTR_CONVOLUTION_CONV_MODE,
                                {CUDNN_CROSS_CORRELATION});
    Set<int64_t>(handle, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, {window.dims});
    const auto set = [&](cudnnBackendAttributeName_t name, const std::vector<int64_t>& values) {
      if (!values.empty()) Set(handle, name, values);
    };
    set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, window.strides);
    set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, window.before);
    set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, window.after);
    set(CUDNN_ATTR_CONVOLUTION_DILATIONS, window.dilations);
    if (made != nullptr) *made = handle;
    return Finalize(handle);
  }

  // Of a window of 3x3 that keeps the size.
  cudnnStatus_t Convolve(Handle x, Handle w, Handle y, Handle* made = nullptr) {
    Handle window = nullptr;
    EXPECT_EQ(Finalized(Window(), &window), CUDNN_STATUS_SUCCESS);
    const Handle operation = Make(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
    const auto set = [&](cudnnBackendAttributeName_t name, Handle value) {
      if (value != nullptr) Set<Handle>(operation, name, {value});
    };
    set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, window);
    set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x);
    set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, w);
    set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, y);
    if (made != nullptr) *made = operation;
    return Finalize(operation);
  }
  // A finalized graph of one convolution.
  Handle Graph() {
    Handle operation = nullptr;
    EXPECT_EQ(Convolve(Image(1, 2, 8, 8), Image(2, 16, 8, 3), Image(3, 2, 16, 8), &operation),
              CUDNN_STATUS_SUCCESS);
    const Handle graph = Make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    EXPECT_EQ(Set<Handle>(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, {operation}), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(Finalize(graph), CUDNN_STATUS_SUCCESS);
    return graph;
  }

  const CudnnBackend* library_ = nullptr;
  std::vector<Handle> made_;
};

TEST_F(CudnnRulesTest, AttributesHaveATypeAndACount) {
  const Handle tensor = Make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  const int64_t values[2] = {1, 1};
  const auto set = [&](cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                       int64_t count,
                       const void* from) { return library_->set(tensor, name, type, count, from); };
  EXPECT_EQ(set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, values),
            CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_FLOAT, 1, values),
            CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE);
  EXPECT_EQ(set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 2, values), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 0, values), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, nullptr), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, values), CUDNN_STATUS_SUCCESS);
}

TEST_F(CudnnRulesTest, WhatIsFinalizedIsReadAndNoLongerWritten) {
  const Handle tensor = Filled({});
  int64_t count = 0, values[CUDNN_DIM_MAX];
  const auto get = [&](cudnnBackendAttributeName_t name, int64_t most, void* to) {
    return library_->get(tensor, name, CUDNN_TYPE_INT64, most, &count, to);
  };
  EXPECT_EQ(get(CUDNN_ATTR_TENSOR_DIMENSIONS, 8, values), CUDNN_STATUS_NOT_INITIALIZED);
  EXPECT_EQ(Finalize(tensor), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(Finalize(tensor), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(Set<int64_t>(tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, {3}), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(get(CUDNN_ATTR_TENSOR_DIMENSIONS, 8, values), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(count, 4);
  EXPECT_EQ(values[1], 8);
  EXPECT_EQ(get(CUDNN_ATTR_TENSOR_DIMENSIONS, 2, values), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(count, 2);
  EXPECT_EQ(get(CUDNN_ATTR_TENSOR_DIMENSIONS, 0, nullptr), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(count, 4);
  EXPECT_EQ(get(CUDNN_ATTR_TENSOR_DATA_TYPE, 1, values), CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE);
  EXPECT_EQ(get(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 1, values), CUDNN_STATUS_BAD_PARAM);
}

TEST_F(CudnnRulesTest, Tensors) {
  EXPECT_EQ(Finalized(Tensor()), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(Finalized(Tensor{.strides = {64, 8, 1}}), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(Finalized(Tensor{.dims = {2, -1, 8, 8}}), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(Finalized(Tensor{.dims = {2, 0, 8, 8}}), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(Finalized(Tensor{.strides = {-1, 1, 1, 1}}), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(Finalized(Tensor{.strides = {0, 0, 0, 0}}), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(Finalized(Tensor{.alignment = 0}), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(Finalized(Tensor{.alignment = 3}), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(Finalized(Tensor{.by_value = true}), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(Finalized(Tensor{.dims = {1, 1, 1, 1}, .by_value = true}), CUDNN_STATUS_SUCCESS);
}

TEST_F(CudnnRulesTest, Windows) {
  EXPECT_EQ(Finalized(Window()), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(Finalized(Window{.before = {}, .after = {}}), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(Finalized(Window{.strides = {0, 1}}), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(Finalized(Window{.strides = {1}}), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(Finalized(Window{.strides = {}}), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(Finalized(Window{.before = {-1, 1}}), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(Finalized(Window{.dilations = {0, 1}}), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(Finalized(Window{.dilations = {}}), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(Finalized(Window{.dims = 3}), CUDNN_STATUS_BAD_PARAM);
}

TEST_F(CudnnRulesTest, Convolutions) {
  const Handle x = Image(1, 2, 8, 8), w = Image(2, 16, 8, 3), y = Image(3, 2, 16, 8);
  EXPECT_EQ(Convolve(x, w, y), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(Convolve(x, Image(2, 16, 4, 3), y), CUDNN_STATUS_SUCCESS);    // two groups
  EXPECT_EQ(Convolve(x, Image(2, 16, 3, 3), y), CUDNN_STATUS_BAD_PARAM);  // channels
  EXPECT_EQ(Convolve(x, w, Image(3, 2, 15, 8)), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(Convolve(x, w, Image(3, 3, 16, 8)), CUDNN_STATUS_BAD_PARAM);  // images
  EXPECT_EQ(Convolve(x, w, Image(3, 2, 16, 7)), CUDNN_STATUS_BAD_PARAM);  // places
  EXPECT_EQ(Convolve(nullptr, w, y), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(Convolve(x, nullptr, y), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(Convolve(Filled({}), w, y), CUDNN_STATUS_BAD_PARAM);  // not finalized
}

TEST_F(CudnnRulesTest, Graphs) {
  const Handle empty = Make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  EXPECT_EQ(Finalize(empty), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(Set<cudnnHandle_t>(empty, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, {nullptr}),
            CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
  EXPECT_EQ(Set<Handle>(empty, CUDNN_ATTR_OPERATIONGRAPH_OPS,
                        {Make(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR)}),
            CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
  Handle operation = nullptr;
  Convolve(Image(1, 2, 8, 8), Image(2, 16, 8, 3), Image(3, 2, 16, 8), &operation);
  const Handle twice = Make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  Set<Handle>(twice, CUDNN_ATTR_OPERATIONGRAPH_OPS, {operation, operation});
  EXPECT_EQ(Finalize(twice), CUDNN_STATUS_BAD_PARAM);
}

TEST_F(CudnnRulesTest, EnginesComeOfTheHeuristicOnce) {
  const Handle none = Make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  Set<cudnnBackendHeurMode_t>(none, CUDNN_ATTR_ENGINEHEUR_MODE, {CUDNN_HEUR_MODE_A});
  EXPECT_EQ(Finalize(none), CUDNN_STATUS_BAD_PARAM);

  const std::string text = CudnnCards()[0].description;
  const Handle device = Make(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  Set<char>(device, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, {text.begin(), text.end()});
  ASSERT_EQ(Finalize(device), CUDNN_STATUS_SUCCESS);
  const Handle heuristic = Make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  Set<cudnnBackendHeurMode_t>(heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, {CUDNN_HEUR_MODE_A});
  Set<Handle>(heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, {Graph()});
  Set<Handle>(heuristic, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, {device});
  ASSERT_EQ(Finalize(heuristic), CUDNN_STATUS_SUCCESS);

  std::vector<Handle> results = {Make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR),
                                 Make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)};
  int64_t count = 0;
  const auto get = [&](int64_t most) {
    return library_->get(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                         most, &count, most == 0 ? nullptr : results.data());
  };
  EXPECT_EQ(get(0), CUDNN_STATUS_SUCCESS);
  EXPECT_GE(count, 2);
  EXPECT_EQ(get(2), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(count, 2);
  EXPECT_EQ(get(2), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(count, 0);

  // What the heuristic gives is finalized.
  EXPECT_EQ(Finalize(results[0]), CUDNN_STATUS_BAD_PARAM);
  const Handle plan = Make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  EXPECT_EQ(Finalize(plan), CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
  EXPECT_EQ(Set<Handle>(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, {results[0]}),
            CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(Finalize(plan), CUDNN_STATUS_SUCCESS);
}

TEST_F(CudnnRulesTest, APackHasAPointerForEachNumber) {
  const auto finalized = [&](const std::vector<int64_t>& ids, std::vector<void*> pointers) {
    const Handle pack = Make(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    if (!ids.empty()) Set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids);
    if (!pointers.empty()) {
      library_->set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
                    static_cast<int64_t>(pointers.size()), pointers.data());
    }
    return Finalize(pack);
  };
  int64_t memory[2] = {};
  EXPECT_EQ(finalized({1, 2}, {memory, memory + 1}), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(finalized({1, 2}, {memory}), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(finalized({1, 2}, {}), CUDNN_STATUS_BAD_PARAM);
}

}  // namespace
}  // namespace sluice::cuda
