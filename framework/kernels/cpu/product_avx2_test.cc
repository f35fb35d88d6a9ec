// Products on a processor with AVX2 and no more, which are ours (tiled_product.h): oneDNN is told
// that it has one before it is first asked, so that this is tested on every machine.
#include <dnnl.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/device/cpu_thread_pool.h"
#include "framework/kernels/cpu/library_call.h"
#include "framework/kernels/cpu/multiplication.h"
#include "framework/kernels/cpu/product.h"
#include "framework/kernels/cpu/tiled_product.h"
#include "framework/tensor/array.h"
#include "framework/testing/allocations.h"
#include "gtest/gtest.h"

namespace sluice::cpu {
namespace {

class ProductAvx2Test : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    InitKernelThread();
    ASSERT_EQ(dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx2), dnnl_success);
    ASSERT_TRUE(ProductsAreTiled());
  }
};

// Numbers that fill their mantissas, so that another order of a sum shows; the same for the same
// place whatever lies around it.
float ValueAt(int64_t matrix, int64_t row, int64_t column) {
  uint64_t state = static_cast<uint64_t>(matrix * 1000003 + row * 7919 + column + 1);
  state = (state ^ (state >> 31)) * 0x9e3779b97f4a7c15;
  state = (state ^ (state >> 29)) * 0xbf58476d1ce4e5b9;
  return static_cast<float>(static_cast<int32_t>(state >> 32)) * 0x1p-31f;
}
float Narrowed(DType dtype, float x) {
  return dtype == DType::kBF16 ? BFloat16ToFloat(FloatToBFloat16(x)) : x;
}

// Matrices a and b of a product, rows from `first_row` of a and columns from `first_column` of b of
// ones that are larger.
struct Operands {
  std::vector<std::byte> a, b;

  Operands(const ProductShape& s, int64_t first_row, int64_t first_column)
      : a(Bytes(s, s.batch_a, s.m)), b(Bytes(s, s.batch_b, s.n)) {
    for (int64_t i = 0; i < s.batch; ++i) {
      for (int64_t r = 0; r < s.m; ++r) {
        for (int64_t d = 0; d < s.k; ++d) {
          StoreElement(s.operands, a.data(),
                       i * s.batch_a + (s.transpose_a ? d * s.m + r : r * s.k + d),
                       ValueAt(s.batch_a == 0 ? 0 : i, first_row + r, d));
        }
      }
      for (int64_t j = 0; j < s.n; ++j) {
        for (int64_t d = 0; d < s.k; ++d) {
          StoreElement(s.operands, b.data(),
                       i * s.batch_b + (s.transpose_b ? j * s.k + d : d * s.n + j),
                       ValueAt(s.batch_b == 0 ? 5 : 5 + i, d, first_column + j));
        }
      }
    }
  }

 private:
  static size_t Bytes(const ProductShape& s, int64_t apart, int64_t lines) {
    return ((s.batch - 1) * apart + lines * s.k) * SizeOf(s.operands);
  }
};

// What numerics.md says: fused multiply-adds in order through kTiledDepth of the depth, and those
// sums in order.
float Expected(const ProductShape& s, int64_t matrix, int64_t row, int64_t column) {
  float total = 0;
  for (int64_t first = 0; first < s.k; first += kTiledDepth) {
    float sum = 0;
    for (int64_t d = first; d < std::min(first + kTiledDepth, s.k); ++d) {
      sum =
          std::fma(Narrowed(s.operands, ValueAt(s.batch_a == 0 ? 0 : matrix, row, d)),
                   Narrowed(s.operands, ValueAt(s.batch_b == 0 ? 5 : 5 + matrix, d, column)), sum);
    }
    total = first == 0 ? sum : total + sum;
  }
  return Narrowed(s.result, total);
}

std::vector<std::byte> ResultOf(const ProductShape& s, int threads, const Operands& at) {
  const auto product = Product::Prepare(s, threads);
  EXPECT_TRUE(product.ok()) << product.status();
  if (!product.ok()) return {};
  EXPECT_EQ((*product)->implementation(), "tiled:avx2");
  std::vector<std::byte> c(s.batch * s.m * s.n * SizeOf(s.result), std::byte{0xff});
  std::vector<std::byte> scratch((*product)->scratch() + 64, std::byte{0xff});
  CpuThreadPool pool(threads, InitKernelThread);
  CpuStream stream(threads > 1 ? &pool : nullptr);
  const KernelContext context = {.stream = &stream};
  (*product)->Run(context, at.a.data(), at.b.data(), c.data(),
                  scratch.data() + 64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64);
  return c;
}

std::string TextOf(const ProductShape& s) {
  return absl::StrCat(s.batch, " of ", s.m, "x", s.n, "x", s.k, s.transpose_a ? " a^T" : "",
                      s.transpose_b ? " b^T" : "", " ", DTypeName(s.operands), " to ",
                      DTypeName(s.result));
}

// All that a product can lie like, at one size.
template <typename F>
void ForEachForm(ProductShape s, F&& fn) {
  for (const auto& [operands, result] : {std::pair{DType::kF32, DType::kF32},
                                         {DType::kBF16, DType::kBF16},
                                         {DType::kBF16, DType::kF32}}) {
    for (const bool transpose_a : {false, true}) {
      for (const bool transpose_b : {false, true}) {
        s.operands = operands, s.result = result;
        s.transpose_a = transpose_a, s.transpose_b = transpose_b;
        fn(s);
      }
    }
  }
}

ProductShape ShapeOf(int64_t m, int64_t n, int64_t k) {
  ProductShape s;
  s.m = m, s.n = n, s.k = k;
  return s;
}

TEST_F(ProductAvx2Test, OneDnnRefusesBf16) {
  Multiplication::Shape shape = {64, 96, 128, false, false, DType::kBF16, DType::kBF16};
  EXPECT_EQ(Multiplication::Prepare(shape).status().code(), absl::StatusCode::kUnimplemented);
}

// Bit for bit, with any number of threads: edges of strips, panels and blocks, few rows and many.
TEST_F(ProductAvx2Test, EverySumIsTheOneThatIsPromised) {
  for (const auto& [m, n, k] : std::vector<std::array<int64_t, 3>>{{1, 1, 1},
                                                                   {1, 113, 300},
                                                                   {5, 16, 8},
                                                                   {6, 97, 256},
                                                                   {7, 15, 513},
                                                                   {12, 200, 31},
                                                                   {13, 17, 257},
                                                                   {45, 33, 66},
                                                                   {199, 40, 25},
                                                                   {26, 1041, 12},
                                                                   {14, 4101, 5}}) {
    ForEachForm(ShapeOf(m, n, k), [&](const ProductShape& s) {
      const Operands at(s, 0, 0);
      const std::vector<std::byte> c = ResultOf(s, 1, at);
      int64_t wrong = 0;
      for (int64_t i = 0; i < s.m * s.n; ++i) {
        const float expected = Expected(s, 0, i / s.n, i % s.n);
        const float got = static_cast<float>(LoadElement(s.result, c.data(), i));
        wrong += std::memcmp(&expected, &got, 4) != 0;
      }
      EXPECT_EQ(wrong, 0) << TextOf(s);
      for (const int threads : {2, 3}) EXPECT_EQ(c, ResultOf(s, threads, at)) << TextOf(s);
    });
  }
}

// Layouts of a mesh cut rows and columns apart.
TEST_F(ProductAvx2Test, BitsDoNotDependOnWhatIsBeside) {
  ForEachForm(ShapeOf(50, 110, 300), [](const ProductShape& whole) {
    const std::vector<std::byte> c = ResultOf(whole, 3, Operands(whole, 0, 0));
    const int64_t size = SizeOf(whole.result);
    for (const auto& [row, column, rows, columns] : std::vector<std::array<int64_t, 4>>{
             {0, 0, 1, 110}, {7, 0, 43, 110}, {31, 3, 10, 50}, {0, 55, 50, 55}, {49, 109, 1, 1}}) {
      ProductShape part = whole;
      part.m = rows, part.n = columns;
      const std::vector<std::byte> some = ResultOf(part, 2, Operands(part, row, column));
      for (int64_t r = 0; r < rows; ++r) {
        EXPECT_EQ(std::memcmp(some.data() + r * columns * size,
                              c.data() + ((row + r) * whole.n + column) * size, columns * size),
                  0)
            << TextOf(part) << " from " << row << ", " << column;
      }
    }
  });
}

// Threads take matrices each, or rows of each where there are fewer or they share an operand.
TEST_F(ProductAvx2Test, EachOfABatchIsAProduct) {
  for (const auto& [batch, shared_a, shared_b] :
       {std::tuple{5, false, false}, {2, false, false}, {5, true, false}, {5, false, true}}) {
    ProductShape all = ShapeOf(70, 65, 90);
    all.batch = batch;
    all.batch_a = shared_a ? 0 : all.m * all.k, all.batch_b = shared_b ? 0 : all.k * all.n;
    ForEachForm(all, [](const ProductShape& s) {
      const Operands at(s, 0, 0);
      const std::vector<std::byte> c = ResultOf(s, 3, at);
      const int64_t bytes = s.m * s.n * SizeOf(s.result);
      for (int64_t i = 0; i < s.batch; ++i) {
        ProductShape one = s;
        one.batch = 1;
        Operands of = at;
        of.a.erase(of.a.begin(), of.a.begin() + i * s.batch_a * SizeOf(s.operands));
        of.b.erase(of.b.begin(), of.b.begin() + i * s.batch_b * SizeOf(s.operands));
        EXPECT_EQ(std::memcmp(ResultOf(one, 1, of).data(), c.data() + i * bytes, bytes), 0)
            << TextOf(s) << ", the " << i << "th";
      }
    });
  }
}

// One chain of so many would be off by more.
TEST_F(ProductAvx2Test, ADeepSumIsTrue) {
  ProductShape s = ShapeOf(20, 24, 13001);
  const Operands at(s, 0, 0);
  const std::vector<std::byte> c = ResultOf(s, 2, at);
  double worst = 0, largest = 0;
  for (int64_t i = 0; i < s.m * s.n; ++i) {
    double sum = 0;
    for (int64_t d = 0; d < s.k; ++d) {
      sum += double{ValueAt(0, i / s.n, d)} * double{ValueAt(5, d, i % s.n)};
    }
    worst = std::max(worst, std::abs(LoadElement(s.result, c.data(), i) - sum));
    largest = std::max(largest, std::abs(sum));
  }
  EXPECT_LE(worst, 1e-6 * largest);
}

TEST_F(ProductAvx2Test, AllocatesNothing) {
  if (!kCountsAllocations) GTEST_SKIP() << "sanitizers have allocators of their own";
  // A thread that starts allocates, whenever that is.
  static std::atomic<bool> started{false};
  CpuThreadPool pool(2, [] {
    InitKernelThread();
    started.store(true);
    started.notify_all();
  });
  started.wait(false);
  CpuStream stream(&pool);
  const KernelContext context = {.stream = &stream};
  ForEachForm(ShapeOf(130, 150, 300), [&](const ProductShape& s) {
    const Operands at(s, 0, 0);
    const auto product = Product::Prepare(s, 2);
    ASSERT_TRUE(product.ok()) << product.status();
    std::vector<std::byte> c(s.m * s.n * 4), scratch((*product)->scratch());
    StartCountingAllocations();
    (*product)->Run(context, at.a.data(), at.b.data(), c.data(), scratch.data());
    EXPECT_EQ(CountedAllocations().own, 0) << TextOf(s);
  });
}

}  // namespace
}  // namespace sluice::cpu
