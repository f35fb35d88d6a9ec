// Products of bf16 on a processor on which oneDNN multiplies f32 alone: it is told that it has AVX2
// before it is first asked.
#include <dnnl.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "framework/device/cpu_thread_pool.h"
#include "framework/kernels/cpu/library_call.h"
#include "framework/kernels/cpu/multiplication.h"
#include "framework/kernels/cpu/product.h"
#include "framework/tensor/array.h"
#include "gtest/gtest.h"

namespace sluice::cpu {
namespace {

class ProductAvx2Test : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    InitKernelThread();
    ASSERT_EQ(dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx2), dnnl_success);
  }
};

TEST_F(ProductAvx2Test, OneDnnRefusesIt) {
  Multiplication::Shape shape = {64, 96, 128, false, false, DType::kBF16, DType::kBF16};
  EXPECT_EQ(Multiplication::Prepare(shape).status().code(), absl::StatusCode::kUnimplemented);
}

TEST_F(ProductAvx2Test, OperandsAreWidened) {
  for (const DType result : {DType::kBF16, DType::kF32}) {
    for (const bool transpose : {false, true}) {
      ProductShape shape;
      shape.batch = 2, shape.m = 20, shape.n = 33, shape.k = 65;
      shape.transpose_a = shape.transpose_b = transpose;
      shape.batch_a = shape.m * shape.k, shape.batch_b = shape.k * shape.n;
      shape.operands = DType::kBF16, shape.result = result;
      const auto product = Product::Prepare(shape, 2);
      ASSERT_TRUE(product.ok()) << product.status();
      std::vector<std::byte> a(2 * 2 * shape.m * shape.k), b(2 * 2 * shape.k * shape.n);
      const auto fill = [](std::vector<std::byte>* x) {
        for (size_t i = 0; i < x->size() / 2; ++i) {
          StoreElement(DType::kBF16, x->data(), i, std::sin(static_cast<double>(i)));
        }
      };
      fill(&a), fill(&b);
      std::vector<std::byte> c(2 * shape.m * shape.n * SizeOf(result)),
          scratch((*product)->scratch() + 64);
      CpuThreadPool pool(2, InitKernelThread);
      CpuStream stream(&pool);
      const KernelContext context = {.stream = &stream};
      (*product)->Run(context, a.data(), b.data(), c.data(),
                      scratch.data() + 64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64);
      for (int64_t i = 0; i < shape.batch; ++i) {
        for (int64_t r = 0; r < shape.m; ++r) {
          for (int64_t col = 0; col < shape.n; ++col) {
            double sum = 0;
            for (int64_t d = 0; d < shape.k; ++d) {
              const int64_t at_a = transpose ? d * shape.m + r : r * shape.k + d;
              const int64_t at_b = transpose ? col * shape.k + d : d * shape.n + col;
              sum += LoadElement(DType::kBF16, a.data(), i * shape.batch_a + at_a) *
                     LoadElement(DType::kBF16, b.data(), i * shape.batch_b + at_b);
            }
            ASSERT_NEAR(LoadElement(result, c.data(), (i * shape.m + r) * shape.n + col), sum,
                        result == DType::kBF16 ? 0x1p-3 : 1e-4);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace sluice::cpu
