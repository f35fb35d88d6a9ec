// Products by cuBLASLt as kernels prepare them; on the emulation, which computes by the rules of
// the real library.
#include "framework/kernels/cuda/cublaslt.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "framework/device/cuda_device.h"
#include "framework/tensor/dtype.h"
#include "framework/testing/cuda_emulation/cublaslt.h"
#include "framework/testing/cuda_emulation/emulation.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice::cuda {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr int64_t kPlenty = 1 << 20;
// Where operands lie in a device's memory.
constexpr int64_t kA = 0, kB = 1 << 16, kC = 2 << 16, kWorkspace = 4 << 16, kBytes = 8 << 16;
constexpr int64_t kBias = 5 << 16, kAux = 6 << 16;  // of an epilogue

class CublasLtProductTest : public ::testing::Test {
 protected:
  CublasLtProductTest() {
    cuda_emulation::Reset(uint64_t{5});
    std::vector<DeviceSpec> specs(2, {DeviceKind::kCuda, kBytes, "0:0"});
    specs[1].card = 1;
    devices_ = OpenCudaDevices(specs).value();
    for (const auto& device : devices_) streams_.push_back(device->OpenStream(nullptr));
  }
  ~CublasLtProductTest() override { EXPECT_THAT(cuda_emulation::TakeErrors(), IsEmpty()); }

  void Put(int64_t at, DType dtype, const std::vector<float>& values, int device = 0) {
    std::vector<std::byte> bytes(values.size() * static_cast<size_t>(SizeOf(dtype)));
    for (size_t i = 0; i < values.size(); ++i) {
      if (dtype == DType::kBF16) {
        const uint16_t bits = FloatToBFloat16(values[i]);
        std::memcpy(bytes.data() + 2 * i, &bits, 2);
      } else {
        std::memcpy(bytes.data() + 4 * i, &values[i], 4);
      }
    }
    devices_[device]->CopyIn(at, bytes);
  }
  std::vector<float> Get(int64_t at, DType dtype, int64_t count, int device = 0) {
    std::vector<std::byte> bytes(static_cast<size_t>(count * SizeOf(dtype)));
    devices_[device]->CopyOut(at, absl::MakeSpan(bytes));
    std::vector<float> values;
    for (int64_t i = 0; i < count; ++i) {
      float value = 0;
      uint16_t bits = 0;
      std::memcpy(&bits, bytes.data() + 2 * i, 2);
      if (dtype == DType::kBF16) value = BFloat16ToFloat(bits);
      if (dtype == DType::kF32) std::memcpy(&value, bytes.data() + 4 * i, 4);
      values.push_back(value);
    }
    return values;
  }

  absl::Status Run(const CublasLtProduct& product, int device = 0, int64_t shift = 0,
                   int64_t bias_shift = 0) {
    auto& stream = *static_cast<CudaStream*>(streams_[device]);
    std::byte* const memory = devices_[device]->memory();
    const CudaOperand all = {memory, kBytes, true};
    stream.Begin(0, 0, {&all, 1});
    KernelContext context;
    context.stream = &stream;
    const absl::Status status =
        product.Run(context, memory + kA + shift, memory + kB, memory + kC, memory + kWorkspace,
                    {memory + kBias + bias_shift, memory + kAux});
    cudaStreamSynchronize(stream.handle());
    return status;
  }

  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<Stream*> streams_;
};

// Values that no sum of a few rounds.
std::vector<float> Values(int64_t count, int seed) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) {
    values.push_back(static_cast<float>((i * 7 + seed * 5) % 11 - 5));
  }
  return values;
}

MatrixProduct Dense(int64_t m, int64_t n, int64_t k, DType operands = DType::kF32,
                    DType result = DType::kF32) {
  return DenseProduct({.m = m, .n = n, .k = k, .operands = operands, .result = result});
}

// Two products whose rows lie among those of other matrices, as those of a convolution's groups do.
TEST_F(CublasLtProductTest, RowsMayLieApart) {
  for (const bool turned : {false, true}) {
    MatrixProduct p = {.batch = 2, .m = 3, .n = 4, .k = 5, .transpose_a = turned};
    p.transpose_b = turned;
    p.row_a = 12, p.batch_a = 6, p.row_b = 11, p.batch_b = 5, p.row_c = 9, p.batch_c = 4;
    p.accumulate = true;
    const std::vector<float> a = Values(80, 1), b = Values(80, 2), c = Values(31, 3);
    Put(kA, DType::kF32, a);
    Put(kB, DType::kF32, b);
    Put(kC, DType::kF32, c);
    const auto product = CublasLtProduct::Prepare(p, kPlenty);
    ASSERT_TRUE(product.ok()) << product.status();
    ASSERT_TRUE(Run(**product).ok());
    std::vector<float> expected = c;
    for (int64_t i = 0; i < 2; ++i) {
      for (int64_t row = 0; row < 3; ++row) {
        for (int64_t column = 0; column < 4; ++column) {
          for (int64_t t = 0; t < 5; ++t) {
            expected[i * 4 + row * 9 + column] +=
                a[i * 6 + (turned ? t * 12 + row : row * 12 + t)] *
                b[i * 5 + (turned ? column * 11 + t : t * 11 + column)];
          }
        }
      }
    }
    EXPECT_EQ(Get(kC, DType::kF32, 31), expected);
  }
}

// Twelve bits behind the first are more than TF32 has.
TEST_F(CublasLtProductTest, F32StaysF32) {
  const float value = 1 + 1.0f / 4096;
  Put(kA, DType::kF32, {value});
  Put(kB, DType::kF32, {1});
  const auto product = CublasLtProduct::Prepare(Dense(1, 1, 1), kPlenty);
  ASSERT_TRUE(product.ok()) << product.status();
  EXPECT_EQ((*product)->algorithm(), "algorithm 1");
  ASSERT_TRUE(Run(**product).ok());
  EXPECT_THAT(Get(kC, DType::kF32, 1), ElementsAre(value));
}

TEST_F(CublasLtProductTest, AnOverrideThatMakesF32Tf32IsRefused) {
  setenv("NVIDIA_TF32_OVERRIDE", "1", 1);
  const absl::Status refused = CublasLtProduct::Prepare(Dense(1, 1, 1), kPlenty).status();
  setenv("NVIDIA_TF32_OVERRIDE", "0", 1);
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(refused.message(), HasSubstr("NVIDIA_TF32_OVERRIDE=1"));
  EXPECT_TRUE(CublasLtProduct::Prepare(Dense(1, 1, 1), kPlenty).ok());
}

// 256 and 1023 times 1/256: parts that are rounded to bf16 lose what they add to it.
TEST_F(CublasLtProductTest, LongSumsOfBf16AreNotRoundedInParts) {
  std::vector<float> a(1024, 1.0f / 256), b(1024, 1);
  a[0] = 256;
  Put(kA, DType::kBF16, a);
  Put(kB, DType::kBF16, b);
  for (const int64_t most : {int64_t{0}, int64_t{8}, kPlenty}) {
    const auto product =
        CublasLtProduct::Prepare(Dense(1, 1, 1024, DType::kBF16, DType::kBF16), most);
    ASSERT_TRUE(product.ok()) << product.status();
    EXPECT_LE((*product)->workspace(), most);
    ASSERT_TRUE(Run(**product).ok());
    EXPECT_THAT(Get(kC, DType::kBF16, 1), ElementsAre(260)) << (*product)->algorithm();
    if (most != kPlenty) continue;
    EXPECT_EQ((*product)->workspace(), 16);
    EXPECT_EQ((*product)->algorithm(), "algorithm 66, 4 splits added in f32");
  }
}

// Gradients of weights.
TEST_F(CublasLtProductTest, Bf16MayGiveF32) {
  Put(kA, DType::kBF16, {1, 2});
  Put(kB, DType::kBF16, {1, 1.0f / 512});
  const auto product = CublasLtProduct::Prepare(Dense(1, 1, 2, DType::kBF16), kPlenty);
  ASSERT_TRUE(product.ok()) << product.status();
  ASSERT_TRUE(Run(**product).ok());
  EXPECT_THAT(Get(kC, DType::kF32, 1), ElementsAre(1 + 1.0f / 256));
}

TEST_F(CublasLtProductTest, ProductsOfNothing) {
  const auto none = CublasLtProduct::Prepare(Dense(0, 4, 3), kPlenty);
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_TRUE(Run(**none).ok());
  Put(kC, DType::kF32, Values(13, 1));
  MatrixProduct p = Dense(3, 4, 0);
  p.accumulate = true;
  ASSERT_TRUE(Run(**CublasLtProduct::Prepare(p, kPlenty)).ok());
  EXPECT_EQ(Get(kC, DType::kF32, 13), Values(13, 1));
  ASSERT_TRUE(Run(**CublasLtProduct::Prepare(Dense(3, 4, 0), kPlenty)).ok());
  EXPECT_THAT(Get(kC, DType::kF32, 12), Each(0));
  EXPECT_EQ(Get(kC, DType::kF32, 13).back(), Values(13, 1).back());
}

TEST_F(CublasLtProductTest, ErrorsNameTheProduct) {
  MatrixProduct p = Dense(3, 5, 4);
  p.row_b = 4;
  const absl::Status wrong = CublasLtProduct::Prepare(p, kPlenty).status();
  EXPECT_TRUE(absl::IsInternal(wrong)) << wrong;
  EXPECT_THAT(wrong.message(), AllOf(HasSubstr("the product of f32[3,4] and [4,5] into f32"),
                                     HasSubstr("CUBLAS_STATUS_INVALID_VALUE")));
}

// What is promised of addresses is what kernels of the library may count on.
TEST_F(CublasLtProductTest, AddressesAreAlignedAsPromised) {
  Put(kA, DType::kF32, Values(40, 1));
  Put(kB, DType::kF32, Values(20, 2));
  const auto promised = CublasLtProduct::Prepare(Dense(3, 5, 4), kPlenty);
  ASSERT_TRUE(promised.ok()) << promised.status();
  EXPECT_TRUE(Run(**promised, 0, 64).ok());
  const absl::Status status = Run(**promised, 0, 4);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("cublasLtMatmul of the product of f32[3,4]"),
                                      HasSubstr("CUBLAS_STATUS_NOT_SUPPORTED")));
  MatrixProduct p = Dense(3, 5, 4);
  p.alignment = 4;
  EXPECT_TRUE(Run(**CublasLtProduct::Prepare(p, kPlenty), 0, 4).ok());
}

// ---- Epilogues ----

double GeluOf(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

// Of matrices of a batch that are beside each other, with one bias for all.
TEST_F(CublasLtProductTest, EpiloguesAreWhatTheySay) {
  MatrixProduct p = Dense(3, 8, 5);
  p.batch = 2, p.batch_a = 15, p.batch_b = 40, p.batch_c = 24;
  Put(kA, DType::kF32, Values(30, 1));
  Put(kB, DType::kF32, Values(80, 2));
  const std::vector<float> bias = Values(8, 3), x = {0.5f, -1, 2, -0.25f, 1, 0, -2, 0.125f};
  Put(kBias, DType::kF32, bias);
  ASSERT_TRUE(Run(**CublasLtProduct::Prepare(p, kPlenty)).ok());
  const std::vector<float> sums = Get(kC, DType::kF32, 48);
  for (const Epilogue epilogue : {Epilogue::kBias, Epilogue::kBiasGelu, Epilogue::kBiasGeluAux}) {
    for (int64_t i = 0; i < 6; ++i) Put(kAux + 32 * i, DType::kF32, x);
    p.epilogue = epilogue;
    const auto product = CublasLtProduct::Prepare(p, kPlenty);
    ASSERT_TRUE(product.ok()) << product.status();
    ASSERT_TRUE(Run(**product).ok());
    const std::vector<float> got = Get(kC, DType::kF32, 48), aux = Get(kAux, DType::kF32, 48);
    for (size_t i = 0; i < 48; ++i) {
      const float biased = sums[i] + bias[i % 8];
      const double expected = epilogue == Epilogue::kBias ? biased : GeluOf(biased);
      EXPECT_NEAR(got[i], expected, 1e-4) << static_cast<int>(epilogue) << ", element " << i;
      EXPECT_EQ(aux[i], epilogue == Epilogue::kBiasGeluAux ? biased : x[i % 8]);
    }
  }
}

// A product of 257, which bf16 rounds to 256, and a bias of 1.
TEST_F(CublasLtProductTest, WhatHasAnEpilogueIsRoundedOnce) {
  Put(kA, DType::kBF16, {256, 1});
  Put(kB, DType::kBF16, {1, 1});
  Put(kBias, DType::kBF16, {1});
  MatrixProduct p = Dense(1, 1, 2, DType::kBF16, DType::kBF16);
  ASSERT_TRUE(Run(**CublasLtProduct::Prepare(p, kPlenty)).ok());
  EXPECT_THAT(Get(kC, DType::kBF16, 1), ElementsAre(256));
  p.epilogue = Epilogue::kBias;
  ASSERT_TRUE(Run(**CublasLtProduct::Prepare(p, kPlenty)).ok());
  EXPECT_THAT(Get(kC, DType::kBF16, 1), ElementsAre(258));
}

// Which is no mistake: there is another way to make it.
TEST_F(CublasLtProductTest, WhatTheLibraryDoesNotMakeIsUnimplemented) {
  const auto refusal = [](const MatrixProduct& p) {
    return CublasLtProduct::Prepare(p, kPlenty).status();
  };
  MatrixProduct rows = Dense(3, 12, 4, DType::kBF16, DType::kBF16);
  rows.epilogue = Epilogue::kBiasGeluAux;
  EXPECT_TRUE(absl::IsUnimplemented(refusal(rows))) << "rows of 12 elements";
  rows.epilogue = Epilogue::kBiasGelu;
  EXPECT_TRUE(refusal(rows).ok());
  MatrixProduct aligned = Dense(3, 16, 4, DType::kBF16, DType::kBF16);
  aligned.epilogue = Epilogue::kBiasGeluAux;
  EXPECT_TRUE(refusal(aligned).ok());
  aligned.alignment = 8;
  EXPECT_TRUE(absl::IsUnimplemented(refusal(aligned))) << "aux at addresses of 8 bytes";
  MatrixProduct nothing = Dense(3, 16, 0);
  nothing.epilogue = Epilogue::kBias;
  EXPECT_TRUE(absl::IsUnimplemented(refusal(nothing))) << "a sum of nothing";
  cuda_emulation::SetCublasLtEpilogues(false);
  MatrixProduct p = Dense(3, 16, 4);
  EXPECT_TRUE(refusal(p).ok());
  p.epilogue = Epilogue::kBias;
  const absl::Status refused = refusal(p);
  cuda_emulation::SetCublasLtEpilogues(true);
  EXPECT_TRUE(absl::IsUnimplemented(refused)) << refused;
  EXPECT_THAT(refused.message(), HasSubstr("into f32 with a bias"));
}

// As those of operands are.
TEST_F(CublasLtProductTest, ABiasIsAlignedAsPromised) {
  Put(kA, DType::kF32, Values(12, 1));
  Put(kB, DType::kF32, Values(20, 2));
  Put(kBias, DType::kF32, Values(40, 3));
  MatrixProduct p = Dense(3, 5, 4);
  p.epilogue = Epilogue::kBias;
  const auto promised = CublasLtProduct::Prepare(p, kPlenty);
  ASSERT_TRUE(promised.ok()) << promised.status();
  EXPECT_TRUE(Run(**promised, 0, 0, 64).ok());
  const absl::Status status = Run(**promised, 0, 0, 4);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("with a bias"), HasSubstr("CUBLAS_STATUS_NOT_SUPPORTED")));
  p.alignment = 4;
  EXPECT_TRUE(Run(**CublasLtProduct::Prepare(p, kPlenty), 0, 0, 4).ok());
}

// Whichever device is the thread's when a kernel is prepared, it runs on its stream's.
TEST_F(CublasLtProductTest, OtherDevicesHaveHandlesOfTheirOwn) {
  Put(kA, DType::kF32, {2}, 1);
  Put(kB, DType::kF32, {3}, 1);
  const auto product = CublasLtProduct::Prepare(Dense(1, 1, 1), kPlenty);
  ASSERT_TRUE(product.ok()) << product.status();
  const absl::Status run = Run(**product, 1);
  EXPECT_TRUE(run.ok()) << run;
  EXPECT_THAT(Get(kC, DType::kF32, 1, 1), ElementsAre(6));
  EXPECT_THAT(Get(kC, DType::kF32, 1, 0), Not(ElementsAre(6)));
}

}  // namespace
}  // namespace sluice::cuda
