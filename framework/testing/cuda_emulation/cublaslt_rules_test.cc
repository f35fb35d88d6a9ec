// That each rule of the emulated cuBLASLt is kept: one thing changed, one answer.
#include <functional>

#include "framework/testing/cuda_emulation/cublaslt_test_product.h"

namespace sluice::cuda_emulation {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Rule {
  const char* name;
  std::function<void(Product&)> change;
  cublasStatus_t status;
  const char* reason;
};

constexpr cublasStatus_t kInvalid = CUBLAS_STATUS_INVALID_VALUE;
constexpr cublasStatus_t kUnsupported = CUBLAS_STATUS_NOT_SUPPORTED;

// Of a product of 16x24x32, bf16 into bf16.
std::vector<Rule> RulesOfProblems() {
  return {
      {"rows", [](Product& p) { p.a.rows = 0; }, kInvalid, "A is empty"},
      {"columns", [](Product& p) { p.b.cols = 0; }, kInvalid, "B is empty"},
      {"ld of A", [](Product& p) { p.a.ld = 15; }, kInvalid, "A has a leading dimension"},
      {"ld of B", [](Product& p) { p.b.ld = -32; }, kInvalid, "B has a leading dimension"},
      {"ld of C", [](Product& p) { p.c.ld = 15; }, kInvalid, "C has a leading dimension"},
      {"ld of D", [](Product& p) { p.d.ld = 15; }, kInvalid, "D has a leading dimension"},
      {"batch of 0", [](Product& p) { p.Batch(0); }, kInvalid, "a batch of 0"},
      {"batches", [](Product& p) { p.b.batch = 2; }, kInvalid, "batches of 1, 2, 1 and 1"},
      {"one D", [](Product& p) { p.Batch(2), p.d.stride = 0; }, kInvalid, "writes one D"},
      {"depth", [](Product& p) { p.b.rows = 31; }, kInvalid, "op(B) 31x24"},
      {"rows of D", [](Product& p) { p.d.rows = p.c.rows = 15; }, kInvalid, "op(A) is 16x32"},
      {"columns of D", [](Product& p) { p.d.cols = p.c.cols = 8; }, kInvalid, "op(A) is 16x32"},
      {"C and D", [](Product& p) { p.c.cols = 8; }, kInvalid, "C is 16x8"},
      {"operation", [](Product& p) { p.Say(CUBLASLT_MATMUL_DESC_TRANSA, int32_t{9}); }, kInvalid,
       "no operation 9"},
      {"epilogue", [](Product& p) { p.Epilogue(static_cast<cublasLtEpilogue_t>(3)); }, kInvalid,
       "no epilogue 3"},
      {"bias unset", [](Product& p) { p.Epilogue(CUBLASLT_EPILOGUE_BIAS); }, kInvalid,
       "bias is not set"},
      {"aux unset",
       [](Product& p) {
         SetAux(p, CUBLASLT_EPILOGUE_GELU_AUX, 16);
         p.Say(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, static_cast<void*>(nullptr));
       },
       kInvalid, "auxiliary matrix is not set"},
      {"aux below rows", [](Product& p) { SetAux(p, CUBLASLT_EPILOGUE_GELU_AUX, 8); }, kInvalid,
       "leading dimension of 8, expected a multiple of 8 and at least 16"},
      {"aux of GELU", [](Product& p) { SetAux(p, CUBLASLT_EPILOGUE_GELU_AUX, 20); }, kInvalid,
       "leading dimension of 20, expected a multiple of 8"},
      {"aux of ReLU", [](Product& p) { SetAux(p, CUBLASLT_EPILOGUE_RELU_AUX, 64); }, kInvalid,
       "leading dimension of 64, expected a multiple of 128"},
      {"aux batch",
       [](Product& p) {
         SetAux(p, CUBLASLT_EPILOGUE_DGELU, 16);
         p.Say(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, int64_t{20});
       },
       kInvalid, "batch stride of 20"},
      {"alignment",
       [](Product& p) { p.Prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, uint32_t{3}); },
       kInvalid, "an alignment of 3"},
      {"bias type",
       [](Product& p) {
         SetBias(p, CUBLASLT_EPILOGUE_BIAS);
         p.Say(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, int32_t{CUDA_R_32F});
       },
       kUnsupported, "bias is of type 0, D of type 14"},
      {"aux type",
       [](Product& p) {
         SetAux(p, CUBLASLT_EPILOGUE_GELU_AUX, 16);
         p.Say(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, int32_t{CUDA_R_32F});
       },
       kUnsupported, "auxiliary matrix is of type 0"},
      {"gradient of GELU into f32",
       [](Product& p) {
         p.c.type = p.d.type = CUDA_R_32F;
         SetAux(p, CUBLASLT_EPILOGUE_DGELU, 16);
       },
       kUnsupported, "gradient of GELU of operands"},
      {"order",
       [](Product& p) {
         p.order = CUBLASLT_ORDER_ROW;
         p.a.ld = p.b.ld = p.c.ld = p.d.ld = 32;
       },
       kUnsupported, "an order"},
      {"batch mode", [](Product& p) { p.batch_mode = CUBLASLT_BATCH_MODE_POINTER_ARRAY; },
       kUnsupported, "a batch of pointers"},
      {"planes", [](Product& p) { p.plane_offset = 64; }, kUnsupported, "planes"},
      {"transposed C", [](Product& p) { p.Say(CUBLASLT_MATMUL_DESC_TRANSC, int32_t{1}); },
       kUnsupported, "a transposed C"},
      {"device pointers",
       [](Product& p) {
         p.Say(CUBLASLT_MATMUL_DESC_POINTER_MODE, int32_t{CUBLASLT_POINTER_MODE_DEVICE});
       },
       kUnsupported, "in device memory"},
      {"types", [](Product& p) { p.b.type = CUDA_R_32F; }, kUnsupported, "A, B, C, D of types 14"},
      {"C of another type", [](Product& p) { p.c.type = CUDA_R_32F; }, kUnsupported, "types 14"},
      {"compute type",
       [](Product& p) {
         p.Say(CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, int32_t{CUBLAS_COMPUTE_32F_FAST_TF32});
       },
       kUnsupported, "compute type 77"},
      {"scale type",
       [](Product& p) { p.Say(CUBLASLT_MATMUL_DESC_SCALE_TYPE, int32_t{CUDA_R_16BF}); },
       kUnsupported, "scale type 14"},
      {"implementation",
       [](Product& p) {
         p.Prefer(CUBLASLT_MATMUL_PREF_IMPL_MASK,
                  ~uint64_t{CUBLASLT_NUMERICAL_IMPL_FLAGS_TENSOR_OP_MASK});
       },
       kUnsupported, "allows no algorithm"},
  };
}

TEST_F(CublasLtTest, EveryRuleHasItsAnswer) {
  Product good(16, 24, 32, CUDA_R_16BF, CUDA_R_16BF);
  EXPECT_EQ(good.Ask(), CUBLAS_STATUS_SUCCESS) << LastCublasLtRefusal();
  for (const Rule& rule : RulesOfProblems()) {
    Product p(16, 24, 32, CUDA_R_16BF, CUDA_R_16BF);
    rule.change(p);
    EXPECT_EQ(p.Ask(), rule.status) << rule.name << ": " << LastCublasLtRefusal();
    EXPECT_THAT(p.offers, IsEmpty()) << rule.name;
    EXPECT_THAT(LastCublasLtRefusal(), HasSubstr(rule.reason)) << rule.name;
  }
}

// A product is looked at again when it is given to a stream: descriptors may have changed.
TEST_F(CublasLtTest, ProductsKeepTheRulesToo) {
  Product p(16, 24, 32, CUDA_R_16BF, CUDA_R_16BF);
  ASSERT_EQ(p.Run(), CUBLAS_STATUS_SUCCESS);
  p.a.ld = 15;
  EXPECT_EQ(p.Multiply(p.offers[0].algo), kInvalid);
  EXPECT_THAT(LastCublasLtRefusal(), HasSubstr("A has a leading dimension"));
}

// Of a product of 16x24x1024, bf16 into bf16, for which the heuristic was asked.
std::vector<Rule> RulesOfCalls() {
  return {
      {"another product", [](Product& p) { p.d.ld = p.c.ld = 32; }, kInvalid, "another product"},
      {"workspace", [](Product& p) { --p.workspace_bytes; }, kInvalid, "the algorithm needs"},
      {"no workspace", [](Product& p) { p.workspace = nullptr; }, kInvalid, "the algorithm needs"},
      {"workspace's address",
       [](Product& p) { p.workspace = static_cast<char*>(p.workspace) + 128; }, kInvalid,
       "not aligned to 256"},
      {"A is null", [](Product& p) { p.at_a = nullptr; }, kInvalid, "A is null"},
      {"C is null",
       [](Product& p) {
         p.at_c = nullptr;
         p.beta = 1;
       },
       kInvalid, "C is null"},
      {"C is D",
       [](Product& p) {
         p.at_c = p.at_d;
         p.beta = 1;
       },
       kInvalid, "another layout"},
      {"address of A", [](Product& p) { p.at_a = static_cast<char*>(p.at_a) + 2; }, kUnsupported,
       "A is not aligned to the 256"},
      {"address of B", [](Product& p) { p.at_b = static_cast<char*>(p.at_b) + 128; }, kUnsupported,
       "B is not aligned to the 256"},
      {"address of D", [](Product& p) { p.at_d = static_cast<char*>(p.at_d) + 64; }, kUnsupported,
       "D is not aligned to the 256"},
      {"address of the bias",
       [](Product& p) {
         p.Say(CUBLASLT_MATMUL_DESC_BIAS_POINTER,
               static_cast<char*>(p.Device(CUDA_R_16BF, 64, 5)) + 2);
       },
       kUnsupported, "the bias is aligned less"},
      {"a destroyed descriptor",
       [](Product& p) {
         cublasLtMatmulDescDestroy(p.matmul);
         p.matmul = nullptr;
       },
       kInvalid, "a descriptor"},
  };
}

TEST_F(CublasLtTest, EveryRuleOfACallHasItsAnswer) {
  for (const Rule& rule : RulesOfCalls()) {
    Product p(16, 24, 1024, CUDA_R_16BF, CUDA_R_16BF);
    p.c.ld = 20;
    p.Prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
             uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
    SetBias(p, CUBLASLT_EPILOGUE_BIAS);
    ASSERT_EQ(p.Run(), CUBLAS_STATUS_SUCCESS) << LastCublasLtRefusal();
    rule.change(p);
    EXPECT_EQ(p.Multiply(p.offers[0].algo), rule.status)
        << rule.name << ": " << LastCublasLtRefusal();
    EXPECT_THAT(LastCublasLtRefusal(), HasSubstr(rule.reason)) << rule.name;
    cudaStreamSynchronize(p.stream);
  }
}

TEST_F(CublasLtTest, AProductIsNotWrittenOverItsFactors) {
  for (const bool first : {true, false}) {
    Product p(16, 16, 16);
    ASSERT_EQ(p.Run(), CUBLAS_STATUS_SUCCESS) << LastCublasLtRefusal();
    p.at_d = first ? p.at_a : p.at_b;
    EXPECT_EQ(p.Multiply(p.offers[0].algo), kInvalid);
    EXPECT_THAT(LastCublasLtRefusal(), HasSubstr(first ? "where A does" : "where B does"));
  }
}

TEST_F(CublasLtTest, AGradientOfGeluTakesNoC) {
  Product p(16, 24, 32, CUDA_R_16BF, CUDA_R_16BF);
  SetAux(p, CUBLASLT_EPILOGUE_DGELU, 16);
  ASSERT_EQ(p.Run(), CUBLAS_STATUS_SUCCESS) << LastCublasLtRefusal();
  p.beta = 1;
  EXPECT_EQ(p.Multiply(p.offers[0].algo), kUnsupported);
  EXPECT_THAT(LastCublasLtRefusal(), HasSubstr("a beta other than 0"));
}

TEST_F(CublasLtTest, AnAuxiliaryMatrixStaysAligned) {
  Product p(16, 24, 32, CUDA_R_16BF, CUDA_R_16BF);
  SetAux(p, CUBLASLT_EPILOGUE_GELU_AUX, 16);
  ASSERT_EQ(p.Run(), CUBLAS_STATUS_SUCCESS) << LastCublasLtRefusal();
  p.Say(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER,
        static_cast<void*>(static_cast<char*>(p.Device(CUDA_R_16BF, 512, 6)) + 8));
  EXPECT_EQ(p.Multiply(p.offers[0].algo), kUnsupported);
  EXPECT_THAT(LastCublasLtRefusal(), HasSubstr("auxiliary matrix is aligned less"));
}

// The promise may be kept small instead.
TEST_F(CublasLtTest, WhatIsPromisedIsWhatIsAsked) {
  Product p(16, 24, 32);
  p.Prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, uint32_t{4});
  p.Allocate();
  p.at_a = static_cast<char*>(p.Device(CUDA_R_32F, 16 * 32 + 1, 1)) + 4;
  EXPECT_EQ(p.Run(), CUBLAS_STATUS_SUCCESS) << LastCublasLtRefusal();
  ExpectNear(Expected(p, false, false), p.Values(p.at_d, p.d), 1e-5);
}

TEST_F(CublasLtTest, HandlesAndDevices) {
  Product p(16, 24, 32);
  ASSERT_EQ(p.Run(), CUBLAS_STATUS_SUCCESS);
  cudaSetDevice(1);
  EXPECT_EQ(p.Multiply(p.offers[0].algo), kInvalid);
  EXPECT_THAT(LastCublasLtRefusal(), HasSubstr("the handle is of device 0"));
  cudaSetDevice(0);
  const cublasLtHandle_t handle = p.handle;
  p.handle = nullptr;
  EXPECT_EQ(p.Ask(), CUBLAS_STATUS_NOT_INITIALIZED);
  EXPECT_EQ(p.Multiply(p.offers.empty() ? cublasLtMatmulAlgo_t() : p.offers[0].algo),
            CUBLAS_STATUS_NOT_INITIALIZED);
  p.handle = handle;
  EXPECT_EQ(p.Ask(0), kInvalid);
  EXPECT_EQ(cublasLtCreate(nullptr), kInvalid);
  EXPECT_EQ(cublasLtDestroy(nullptr), CUBLAS_STATUS_NOT_INITIALIZED);
  EXPECT_EQ(p.Multiply(cublasLtMatmulAlgo_t()), kInvalid);
  EXPECT_THAT(LastCublasLtRefusal(), HasSubstr("no algorithm was chosen"));
}

TEST_F(CublasLtTest, OlderDevices) {
  Reset(Options{.seed = 7, .major = 7, .minor = 5});
  Product f32(16, 24, 32);
  EXPECT_EQ(f32.Ask(), CUBLAS_STATUS_SUCCESS);
  const cublasLtMatmulAlgo_t of_older = f32.offers[0].algo;
  Product bf16(16, 24, 32, CUDA_R_16BF, CUDA_R_16BF);
  EXPECT_EQ(bf16.Ask(), CUBLAS_STATUS_ARCH_MISMATCH);
  EXPECT_THAT(LastCublasLtRefusal(), HasSubstr("the device has 7.5"));
  f32.Say(CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, int32_t{CUBLAS_COMPUTE_32F_FAST_TF32});
  EXPECT_EQ(f32.Ask(), CUBLAS_STATUS_ARCH_MISMATCH);
  Reset(uint64_t{7});
  Product newer(16, 24, 32);
  newer.Allocate();
  EXPECT_EQ(newer.Multiply(of_older), CUBLAS_STATUS_ARCH_MISMATCH);
  EXPECT_THAT(LastCublasLtRefusal(), HasSubstr("compute capability 75, the device has 90"));
}

}  // namespace
}  // namespace sluice::cuda_emulation
