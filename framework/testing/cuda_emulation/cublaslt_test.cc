// What the emulated cuBLASLt computes, and what it sees of its operands.
#include "framework/testing/cuda_emulation/cublaslt_test_product.h"

namespace sluice::cuda_emulation {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST_F(CublasLtTest, ComputesWhatItSays) {
  struct Types {
    cudaDataType operands, result;
    double tolerance;
  };
  for (const Types types :
       {Types{CUDA_R_32F, CUDA_R_32F, 1e-5}, Types{CUDA_R_16BF, CUDA_R_16BF, 4e-3},
        Types{CUDA_R_16BF, CUDA_R_32F, 1e-5}}) {
    for (const int turned : {0, 1, 2, 3}) {
      const bool turned_a = (turned & 1) != 0, turned_b = (turned & 2) != 0;
      Product p(13, 6, 21, types.operands, types.result);
      if (turned_a) p.a = {types.operands, 21, 13, 24, 21 * 13 + 50};
      if (turned_b) p.b = {types.operands, 6, 21, 7, 6 * 21 + 30};
      p.d.ld = 16;
      p.d.stride = 16 * 6 + 5;
      p.c.stride = 13 * 6;
      p.Batch(3);
      p.alpha = 0.5;
      p.beta = -2;
      p.Say(CUBLASLT_MATMUL_DESC_TRANSA, int32_t{turned_a ? CUBLAS_OP_T : CUBLAS_OP_N});
      p.Say(CUBLASLT_MATMUL_DESC_TRANSB, int32_t{turned_b ? CUBLAS_OP_T : CUBLAS_OP_N});
      p.Allocate();
      p.at_d = p.Device(p.d.type, Product::Elements(p.d), 9);  // what is between columns stays
      const std::vector<float> before = p.Values(p.at_d, p.d);
      ASSERT_EQ(p.Run(), CUBLAS_STATUS_SUCCESS) << LastCublasLtRefusal();
      const std::vector<double> expected = Expected(p, turned_a, turned_b);
      const std::vector<float> got = p.Values(p.at_d, p.d);
      ExpectNear(expected, got, types.tolerance);
      for (size_t i = 0; i < got.size(); ++i) {
        if (std::isnan(expected[i])) {
          ASSERT_EQ(got[i], before[i]) << "between columns, " << i;
        }
      }
    }
  }
}

// Stride 0 gives all products of a batch one matrix.
TEST_F(CublasLtTest, ABatchMayShareAnOperand) {
  Product p(5, 4, 3);
  p.Batch(2);
  p.b.stride = 0;
  p.Allocate();
  ASSERT_EQ(p.Run(), CUBLAS_STATUS_SUCCESS) << LastCublasLtRefusal();
  ExpectNear(Expected(p, false, false), p.Values(p.at_d, p.d), 1e-5);
}

// C may be anything where beta is 0: it is not read.
TEST_F(CublasLtTest, WithoutBetaCIsNotRead) {
  Product p(5, 4, 3);
  p.Allocate();
  p.at_c = p.Device(CUDA_R_32F, 20, 0, /*filled=*/false);
  ASSERT_EQ(p.Run(), CUBLAS_STATUS_SUCCESS);
  ExpectNear(Expected(p, false, false), p.Values(p.at_d, p.d), 1e-5);
  p.beta = 1;
  ASSERT_EQ(p.Run(), CUBLAS_STATUS_SUCCESS);
  cudaStreamSynchronize(p.stream);
  EXPECT_THAT(TakeErrors(), Contains(HasSubstr("cublasLtMatmul of 5x4x3")));
}

TEST_F(CublasLtTest, BitsAreTheSameFromRunToRun) {
  std::vector<char> first;
  for (const uint64_t seed : {1, 2, 3}) {
    Reset(seed);
    Product p(33, 17, 900, CUDA_R_16BF, CUDA_R_32F);
    ASSERT_EQ(p.Run(), CUBLAS_STATUS_SUCCESS);
    const std::vector<char> bits = p.Read(p.at_d, p.d);
    if (first.empty()) first = bits;
    EXPECT_EQ(bits, first);
  }
}

// ---- Algorithms ----

// A sum of 1 and many terms that bf16 would lose beside it.
std::vector<float> LongSum(uint32_t schemes, uint64_t most_workspace, int32_t* splits) {
  Product p(1, 1, 1024, CUDA_R_16BF, CUDA_R_16BF);
  p.Prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, schemes);
  p.Prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, most_workspace);
  p.Allocate();
  std::vector<uint16_t> a(1024, FloatToBFloat16(1.0f / 256)), b(1024, FloatToBFloat16(1));
  a[0] = FloatToBFloat16(256);
  p.CopyIn(p.at_a, a.data(), 2048);
  p.CopyIn(p.at_b, b.data(), 2048);
  EXPECT_EQ(p.Run(), CUBLAS_STATUS_SUCCESS) << LastCublasLtRefusal();
  EXPECT_EQ(cublasLtMatmulAlgoConfigGetAttribute(&p.offers[0].algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM,
                                                 splits, sizeof *splits, nullptr),
            CUBLAS_STATUS_SUCCESS);
  return p.Values(p.at_d, p.d);
}

// 256 + 1023/256 is 259.996, in bf16, which has steps of 2 there, 260. In four parts that are
// rounded as they are added, 256.996 to 256, 1 is lost three times.
TEST_F(CublasLtTest, PartsOfASumAreRoundedAsTheSchemeSays) {
  int32_t splits = 0;
  EXPECT_EQ(LongSum(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, 1 << 20, &splits)[0], 260);
  EXPECT_EQ(splits, 4);
  EXPECT_EQ(LongSum(CUBLASLT_REDUCTION_SCHEME_INPLACE, 1 << 20, &splits)[0], 256);
  EXPECT_EQ(splits, 4);
  EXPECT_EQ(LongSum(CUBLASLT_REDUCTION_SCHEME_MASK, 0, &splits)[0], 260);
  EXPECT_EQ(splits, 1);
  EXPECT_EQ(LongSum(CUBLASLT_REDUCTION_SCHEME_NONE, 1 << 20, &splits)[0], 260);
  EXPECT_EQ(splits, 1);
}

TEST_F(CublasLtTest, AlgorithmsSayWhatTheyAre) {
  Product p(16, 24, 1024);
  ASSERT_EQ(p.Ask(2), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(p.offers.size(), 2u);
  ASSERT_EQ(p.Ask(), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(p.offers.size(), 4u);
  const auto get = [&](void* to, size_t bytes, size_t* written) {
    return cublasLtMatmulAlgoConfigGetAttribute(&p.offers[0].algo, CUBLASLT_ALGO_CONFIG_ID, to,
                                                bytes, written);
  };
  int64_t value = 0;
  size_t written = 0;
  EXPECT_EQ(get(nullptr, 0, &written), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(written, 4u);
  EXPECT_EQ(get(nullptr, 0, nullptr), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(get(nullptr, 4, nullptr), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(get(&value, 8, nullptr), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(get(&value, 4, nullptr), CUBLAS_STATUS_SUCCESS);
}

TEST_F(CublasLtTest, OnlyTf32IsRoundedToTf32) {
  for (const bool fast : {false, true}) {
    Product p(1, 1, 1);
    if (fast) p.Say(CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, int32_t{CUBLAS_COMPUTE_32F_FAST_TF32});
    p.Allocate();
    const float a = 1 + std::ldexp(1.0f, -12), b = 1;
    p.CopyIn(p.at_a, &a, 4);
    p.CopyIn(p.at_b, &b, 4);
    ASSERT_EQ(p.Run(), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(p.Values(p.at_d, p.d)[0], fast ? 1 : a);
    const uint32_t nan = 0x7fffffff;
    p.CopyIn(p.at_a, &nan, 4);
    ASSERT_EQ(p.Run(), CUBLAS_STATUS_SUCCESS);
    EXPECT_TRUE(std::isnan(p.Values(p.at_d, p.d)[0]));
    uint64_t flags = 0;
    cublasLtMatmulAlgoCapGetAttribute(&p.offers[0].algo, CUBLASLT_ALGO_CAP_NUMERICAL_IMPL_FLAGS,
                                      &flags, sizeof flags, nullptr);
    EXPECT_EQ((flags & CUBLASLT_NUMERICAL_IMPL_FLAGS_TENSOR_OP_MASK) != 0, fast);
  }
}

// ---- Epilogues ----

double GeluOf(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
double GeluGradientOf(double x) { return (GeluOf(x + 1e-5) - GeluOf(x - 1e-5)) / 2e-5; }

TEST_F(CublasLtTest, ActivationsKeepTheirInput) {
  Product plain(16, 6, 32);
  ASSERT_EQ(plain.Run(), CUBLAS_STATUS_SUCCESS);
  const std::vector<float> sums = plain.Values(plain.at_d, plain.d);
  for (const bool relu : {true, false}) {
    Product p(16, 6, 32);
    SetAux(p, relu ? CUBLASLT_EPILOGUE_RELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
           relu ? 128 : 24);
    void* const aux = p.Device(CUDA_R_32F, relu ? 24 : 24 * 6, 0);
    void* const bias = p.Device(CUDA_R_32F, 16, 5);
    p.Say(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aux);
    p.Say(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
    ASSERT_EQ(p.Run(), CUBLAS_STATUS_SUCCESS) << LastCublasLtRefusal();
    const std::vector<float> added = p.Values(bias, {CUDA_R_32F, 16, 1, 16});
    std::vector<double> expected;
    for (size_t i = 0; i < sums.size(); ++i) {
      const double x = double{sums[i]} + added[i % 16];
      expected.push_back(relu ? std::max(x, 0.0) : GeluOf(x));
      if (!relu) {
        EXPECT_NEAR(p.Values(aux, {CUDA_R_32F, 16, 6, 24})[i / 16 * 24 + i % 16], x, 1e-4);
        continue;
      }
      const std::vector<char> mask = p.Read(aux, {CUDA_R_32F, 4, 6, 4});
      EXPECT_EQ(mask[i / 16 * 16 + i % 16 / 8] >> i % 8 & 1, x > 0);
    }
    ExpectNear(expected, p.Values(p.at_d, p.d), 1e-5);
  }
}

// 257, which bf16 rounds to 256, and 1: rounded once 258, rounded before it is added 256.
TEST_F(CublasLtTest, ABiasIsAddedToWhatIsNotRoundedYet) {
  for (const cublasLtEpilogue_t epilogue :
       {CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_GELU_AUX_BIAS}) {
    Product p(1, 1, 2, CUDA_R_16BF, CUDA_R_16BF);
    p.Allocate();
    const uint16_t a[] = {FloatToBFloat16(256), FloatToBFloat16(1)};
    const uint16_t ones[] = {FloatToBFloat16(1), FloatToBFloat16(1)};
    p.CopyIn(p.at_a, a, sizeof a);
    p.CopyIn(p.at_b, ones, sizeof ones);
    ASSERT_EQ(p.Run(), CUBLAS_STATUS_SUCCESS) << LastCublasLtRefusal();
    EXPECT_EQ(p.Values(p.at_d, p.d)[0], 256);
    SetAux(p, epilogue, 8);
    void* const aux = p.Device(CUDA_R_16BF, 8, 6);
    p.Say(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aux);
    SetBias(p, epilogue);
    void* const bias = p.Device(CUDA_R_16BF, 64, 5);
    p.CopyIn(bias, ones, sizeof ones);
    p.Say(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
    ASSERT_EQ(p.Run(), CUBLAS_STATUS_SUCCESS) << LastCublasLtRefusal();
    EXPECT_EQ(p.Values(p.at_d, p.d)[0], 258);
    if (epilogue == CUBLASLT_EPILOGUE_BIAS) continue;
    EXPECT_EQ(p.Values(aux, {CUDA_R_16BF, 1, 1, 8})[0], 258);
  }
}

TEST_F(CublasLtTest, ATestMaySayThatThereAreNoEpilogues) {
  SetCublasLtEpilogues(false);
  Product p(16, 6, 32);
  EXPECT_EQ(p.Ask(), CUBLAS_STATUS_SUCCESS);
  SetBias(p, CUBLASLT_EPILOGUE_BIAS);
  EXPECT_EQ(p.Ask(), CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(LastCublasLtRefusal(), "no algorithm has an epilogue");
  SetCublasLtEpilogues(true);
  EXPECT_EQ(p.Ask(), CUBLAS_STATUS_SUCCESS);
}

TEST_F(CublasLtTest, GradientsOfActivationsAndTheirSums) {
  Product plain(16, 6, 32);
  ASSERT_EQ(plain.Run(), CUBLAS_STATUS_SUCCESS);
  const std::vector<float> sums = plain.Values(plain.at_d, plain.d);
  Product p(16, 6, 32);
  void* const bias = p.Device(CUDA_R_32F, 16, 5, /*filled=*/false);
  SetAux(p, CUBLASLT_EPILOGUE_DGELU_BGRAD, 16);
  void* const aux = p.Device(CUDA_R_32F, 16 * 6, 8);
  p.Say(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aux);
  p.Say(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  ASSERT_EQ(p.Run(), CUBLAS_STATUS_SUCCESS) << LastCublasLtRefusal();
  const std::vector<float> inputs = p.Values(aux, {CUDA_R_32F, 16, 6, 16});
  std::vector<double> expected, sum(16);
  for (size_t i = 0; i < sums.size(); ++i) {
    expected.push_back(sums[i] * GeluGradientOf(inputs[i]));
    sum[i % 16] += expected.back();
  }
  ExpectNear(expected, p.Values(p.at_d, p.d), 1e-4);
  ExpectNear(sum, p.Values(bias, {CUDA_R_32F, 16, 1, 16}), 1e-4);
}

TEST_F(CublasLtTest, TheGradientOfReluReadsItsMask) {
  Product plain(16, 6, 32);
  ASSERT_EQ(plain.Run(), CUBLAS_STATUS_SUCCESS);
  const std::vector<float> sums = plain.Values(plain.at_d, plain.d);
  Product p(16, 6, 32);
  SetAux(p, CUBLASLT_EPILOGUE_DRELU, 128);
  void* const mask = p.Device(CUDA_R_32F, 24, 0);
  cudaMemset(mask, 0x5a, 96);
  p.Say(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, mask);
  ASSERT_EQ(p.Run(), CUBLAS_STATUS_SUCCESS) << LastCublasLtRefusal();
  std::vector<double> expected;
  for (size_t i = 0; i < sums.size(); ++i) {
    expected.push_back((0x5a >> i % 8 & 1) != 0 ? sums[i] : 0);
  }
  ExpectNear(expected, p.Values(p.at_d, p.d), 1e-6);
}

TEST_F(CublasLtTest, SumsOfOperandsAreGradientsOfBiases) {
  for (const bool of_a : {true, false}) {
    Product p(16, 6, 32);
    SetBias(p, of_a ? CUBLASLT_EPILOGUE_BGRADA : CUBLASLT_EPILOGUE_BGRADB);
    void* const bias = p.Device(CUDA_R_32F, of_a ? 16 : 6, 5, /*filled=*/false);
    p.Say(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
    ASSERT_EQ(p.Run(), CUBLAS_STATUS_SUCCESS) << LastCublasLtRefusal();
    const std::vector<float> values = of_a ? p.Values(p.at_a, p.a) : p.Values(p.at_b, p.b);
    std::vector<double> sum(of_a ? 16 : 6);
    for (size_t i = 0; i < values.size(); ++i) sum[of_a ? i % 16 : i / 32] += values[i];
    ExpectNear(sum, p.Values(bias, {CUDA_R_32F, sum.size(), 1, 16}), 1e-5);
    ExpectNear(Expected(p, false, false), p.Values(p.at_d, p.d), 1e-5);
  }
}

// ---- What the emulation sees of its accesses ----

TEST_F(CublasLtTest, OperandsMustBeInitialized) {
  Product p(16, 6, 32);
  p.Allocate();
  p.at_b = p.Device(CUDA_R_32F, 32 * 6, 0, /*filled=*/false);
  ASSERT_EQ(p.Run(), CUBLAS_STATUS_SUCCESS);
  cudaStreamSynchronize(p.stream);
  EXPECT_THAT(TakeErrors(), Contains(HasSubstr("cublasLtMatmul of 16x6x32")));
}

TEST_F(CublasLtTest, WhatEpiloguesReadMustBeInitialized) {
  for (const bool bias : {true, false}) {
    Product p(16, 6, 32);
    if (bias) {
      SetBias(p, CUBLASLT_EPILOGUE_BIAS);
      p.Say(CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.Device(CUDA_R_32F, 16, 0, /*filled=*/false));
    } else {
      SetAux(p, CUBLASLT_EPILOGUE_DGELU, 16);
      p.Say(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER,
            p.Device(CUDA_R_32F, 96, 0, /*filled=*/false));
    }
    ASSERT_EQ(p.Run(), CUBLAS_STATUS_SUCCESS) << LastCublasLtRefusal();
    cudaStreamSynchronize(p.stream);
    EXPECT_THAT(TakeErrors(), Contains(HasSubstr("cublasLtMatmul of 16x6x32"))) << bias;
  }
}

// A leading dimension that is too large for the buffer.
TEST_F(CublasLtTest, OperandsMustBeInsideOfMemory) {
  Product p(16, 6, 32);
  p.Allocate();
  p.a.ld = 1 << 20;
  ASSERT_EQ(p.Run(), CUBLAS_STATUS_SUCCESS);
  cudaStreamSynchronize(p.stream);
  EXPECT_THAT(TakeErrors(), Contains(HasSubstr("cublasLtMatmul of 16x6x32")));
}

TEST_F(CublasLtTest, StreamsMayNotShareAWorkspace) {
  for (const bool ordered : {true, false}) {
    Product first(16, 24, 1024), second(16, 24, 1024);
    second.Allocate();  // waits for the device
    ASSERT_EQ(first.Run(), CUBLAS_STATUS_SUCCESS);
    ASSERT_GT(first.workspace_bytes, 0u);
    if (ordered) cudaStreamSynchronize(first.stream);
    ASSERT_EQ(second.Ask(), CUBLAS_STATUS_SUCCESS);
    second.workspace = first.workspace;
    second.workspace_bytes = first.workspace_bytes;
    ASSERT_EQ(second.Multiply(second.offers[0].algo), CUBLAS_STATUS_SUCCESS);
    cudaStreamSynchronize(first.stream);
    cudaStreamSynchronize(second.stream);
    const std::vector<std::string> errors = TakeErrors();
    if (ordered) {
      EXPECT_THAT(errors, IsEmpty());
    } else {
      EXPECT_THAT(errors, Contains(HasSubstr("cublasLtMatmul of 16x24x1024")));
    }
  }
}

TEST_F(CublasLtTest, ResultsAreWrittenInOrder) {
  Product p(16, 24, 32);
  ASSERT_EQ(p.Run(), CUBLAS_STATUS_SUCCESS);
  cudaStream_t other = nullptr;
  cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
  cudaMemsetAsync(p.at_d, 0, 64, other);
  cudaStreamSynchronize(p.stream);
  cudaStreamSynchronize(other);
  EXPECT_THAT(TakeErrors(), Not(IsEmpty()));
}

}  // namespace
}  // namespace sluice::cuda_emulation
