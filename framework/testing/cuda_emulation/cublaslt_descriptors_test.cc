// Descriptors of the emulated cuBLASLt: sizes, defaults and answers are those of cuBLASLt 13.1,
// whose descriptors work without a GPU: linked with it, the first two tests pass. It does not
// survive what the last one does.
#include <cublasLt.h>

#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace {

constexpr cublasStatus_t kInvalid = CUBLAS_STATUS_INVALID_VALUE;

TEST(CublasLtDescriptorsTest, DescriptorsKeepWhatTheyAreTold) {
  cublasLtMatmulDesc_t matmul = nullptr;
  ASSERT_EQ(cublasLtMatmulDescCreate(&matmul, CUBLAS_COMPUTE_32F, CUDA_R_32F),
            CUBLAS_STATUS_SUCCESS);
  const std::vector<std::pair<int, size_t>> sizes = {{0, 4},  {1, 4},  {2, 4},  {3, 4},  {4, 4},
                                                     {5, 4},  {7, 4},  {8, 8},  {10, 8}, {11, 8},
                                                     {12, 8}, {13, 8}, {15, 4}, {22, 4}, {26, 4}};
  for (const auto& [number, size] : sizes) {
    const auto attribute = static_cast<cublasLtMatmulDescAttributes_t>(number);
    size_t written = 0;
    EXPECT_EQ(cublasLtMatmulDescGetAttribute(matmul, attribute, nullptr, 0, &written),
              CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(written, size) << number;
    const int64_t value = 0x1234567;
    int64_t got = 0;
    EXPECT_EQ(cublasLtMatmulDescSetAttribute(matmul, attribute, &value, size + 4), kInvalid);
    EXPECT_EQ(cublasLtMatmulDescSetAttribute(matmul, attribute, nullptr, size), kInvalid);
    EXPECT_EQ(cublasLtMatmulDescSetAttribute(matmul, attribute, &value, size),
              CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cublasLtMatmulDescGetAttribute(matmul, attribute, &got, size - 1, &written),
              kInvalid);
    EXPECT_EQ(cublasLtMatmulDescGetAttribute(matmul, attribute, nullptr, 0, nullptr), kInvalid);
    EXPECT_EQ(cublasLtMatmulDescGetAttribute(matmul, attribute, &got, size, nullptr),
              CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(got, value);
  }
  EXPECT_EQ(cublasLtMatmulDescDestroy(matmul), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cublasLtMatmulDescDestroy(nullptr), CUBLAS_STATUS_SUCCESS);
}

TEST(CublasLtDescriptorsTest, PreferencesBeginAsTheLibrarysDo) {
  cublasLtMatmulPreference_t preference = nullptr;
  ASSERT_EQ(cublasLtMatmulPreferenceCreate(&preference), CUBLAS_STATUS_SUCCESS);
  const std::vector<std::pair<int, uint64_t>> defaults = {
      {0, 0}, {1, 0}, {3, 7}, {5, 256}, {6, 256}, {7, 256}, {8, 256}, {9, 0}, {12, ~uint64_t{0}}};
  for (const auto& [number, value] : defaults) {
    const auto attribute = static_cast<cublasLtMatmulPreferenceAttributes_t>(number);
    size_t size = 0;
    EXPECT_EQ(cublasLtMatmulPreferenceGetAttribute(preference, attribute, nullptr, 0, &size),
              CUBLAS_STATUS_SUCCESS);
    uint64_t got = 0;
    EXPECT_EQ(cublasLtMatmulPreferenceGetAttribute(preference, attribute, &got, size, nullptr),
              CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(got, value) << number;
  }
  EXPECT_EQ(cublasLtMatmulPreferenceDestroy(preference), CUBLAS_STATUS_SUCCESS);
}

TEST(CublasLtDescriptorsTest, WhatIsGoneIsRefused) {
  cublasLtMatmulDesc_t matmul = nullptr;
  ASSERT_EQ(cublasLtMatmulDescCreate(&matmul, CUBLAS_COMPUTE_32F, CUDA_R_32F),
            CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(cublasLtMatmulDescDestroy(matmul), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cublasLtMatmulDescDestroy(matmul), kInvalid);
}

}  // namespace
