// NVIDIA's libraries themselves, on a machine that has them; no GPU is needed.
#include <cublasLt.h>
#include <cudnn.h>
#include <nccl.h>

#include <iostream>

#include "framework/device/cuda_library.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

TEST(CudaLibraryRealTest, CublasLtOfTheVersionOfItsHeader) {
  const auto library = CudaLibrary::CublasLt();
  ASSERT_TRUE(library.ok()) << library.status();
  std::cout << (*library)->description() << "\n";
  EXPECT_EQ((*library)->version() / 10000, CUBLAS_VER_MAJOR);
  // Descriptors need no device.
  const auto create =
      (*library)->Function<decltype(&cublasLtMatmulDescCreate)>("cublasLtMatmulDescCreate");
  const auto destroy =
      (*library)->Function<decltype(&cublasLtMatmulDescDestroy)>("cublasLtMatmulDescDestroy");
  ASSERT_TRUE(create.ok() && destroy.ok());
  cublasLtMatmulDesc_t description = nullptr;
  ASSERT_EQ((*create)(&description, CUBLAS_COMPUTE_32F, CUDA_R_32F), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ((*destroy)(description), CUBLAS_STATUS_SUCCESS);
}

TEST(CudaLibraryRealTest, CudnnFindsItsParts) {
  const auto library = CudaLibrary::Cudnn();
  ASSERT_TRUE(library.ok()) << library.status();
  std::cout << (*library)->description() << "\n";
  EXPECT_EQ((*library)->version() / 10000, CUDNN_MAJOR);
  const auto check =
      (*library)->Function<decltype(&cudnnGraphVersionCheck)>("cudnnGraphVersionCheck");
  ASSERT_TRUE(check.ok()) << check.status();
  EXPECT_EQ((*check)(), CUDNN_STATUS_SUCCESS);
}

TEST(CudaLibraryRealTest, NcclSpeaksWithoutAGpu) {
  const auto library = CudaLibrary::Nccl();
  ASSERT_TRUE(library.ok()) << library.status();
  std::cout << (*library)->description() << "\n";
  EXPECT_EQ((*library)->version() / 10000, NCCL_MAJOR);
  const auto text = (*library)->Function<decltype(&ncclGetErrorString)>("ncclGetErrorString");
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_STRNE((*text)(ncclInvalidUsage), "");
}

TEST(CudaLibraryRealTest, AskedTwiceItIsTheSame) {
  const auto first = CudaLibrary::Nccl();
  const auto second = CudaLibrary::Nccl();
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(*first, *second);
}

}  // namespace
}  // namespace sluice
