#include "framework/kernels/cpu/product.h"

#include <malloc.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "framework/device/cpu_thread_pool.h"
#include "framework/kernels/cpu/deep_product.h"
#include "framework/kernels/cpu/library_call.h"
#include "framework/kernels/cpu/multiplication.h"
#include "framework/kernels/cpu/tiled_product.h"
#include "framework/tensor/array.h"
#include "gtest/gtest.h"

namespace {

// Allocations of this thread that are ours and the library's.
thread_local int64_t own_allocations = 0, library_allocations = 0;

[[maybe_unused]] void Count() {
  ++(sluice::ScopedLibraryCall::Active() ? library_allocations : own_allocations);
}

}  // namespace

// Sanitizers have allocators of their own.
#if !defined(ADDRESS_SANITIZER) && !defined(THREAD_SANITIZER)
extern "C" {
void* __libc_malloc(size_t bytes);
void* malloc(size_t bytes) {
  Count();
  return __libc_malloc(bytes);
}
}
#endif

namespace sluice::cpu {
namespace {

// The products of a GPT's linear layers, forward and backward: rows of tokens, width d, its head.
std::vector<ProductShape> GptProducts() {
  std::vector<ProductShape> shapes;
  const auto add = [&](int64_t m, int64_t n, int64_t k, bool ta, bool tb) {
    ProductShape shape;
    shape.m = m, shape.n = n, shape.k = k, shape.transpose_a = ta, shape.transpose_b = tb;
    shapes.push_back(shape);
  };
  for (int64_t width : {128, 256, 768}) {
    for (int64_t tokens : {512, 1024}) {
      for (int64_t out : {width, 3 * width, 4 * width, int64_t{257}}) {
        add(tokens, out, width, false, false);
        add(tokens, width, out, false, true);
        add(width, out, tokens, true, false);
        add(tokens, out, width, false, true);  // a tied head
        add(out, width, tokens, true, false);
      }
      add(tokens, width, 4 * width, false, false);
    }
  }
  return shapes;
}

TEST(ProductTest, NoShapeOfGptIsLeftToAReferenceOrAnAllocatingOne) {
  InitKernelThread();
  for (const ProductShape& shape : GptProducts()) {
    for (int threads : {1, 2}) {
      const auto product = Product::Prepare(shape, threads);
      ASSERT_TRUE(product.ok()) << product.status();
      const std::string name = (*product)->implementation();
      EXPECT_FALSE(name.empty());
      EXPECT_EQ(name == "tiled:avx2", ProductsAreTiled()) << name;
      EXPECT_FALSE(absl::StrContains(name, "ref")) << name;
      // gemm:jit allocates megabytes at every call.
      EXPECT_FALSE(absl::StrContains(name, "gemm:jit"))
          << name << ": " << shape.m << " x " << shape.n << " x " << shape.k;
    }
  }
}

template <typename T>
const std::byte* Bytes(const std::vector<T>& values) {
  return reinterpret_cast<const std::byte*>(values.data());
}
template <typename T>
std::byte* Bytes(std::vector<T>* values) {
  return reinterpret_cast<std::byte*>(values->data());
}

// Values that fill their mantissas, so that another order of a sum shows.
std::vector<float> Values(int64_t n) {
  std::vector<float> values(n);
  uint32_t state = 1;
  for (float& value : values) {
    state = state * 1664525 + 1013904223;
    value = static_cast<float>(static_cast<int32_t>(state)) * 0x1p-31f;
  }
  return values;
}

TEST(ProductTest, TheNumberOfThreadsChangesNoBitOfAWeightGradient) {
  InitKernelThread();
  CpuThreadPool two(2, InitKernelThread), three(3, InitKernelThread);
  for (const int64_t rows : {256, 768, 1040, 3000}) {  // some are gathered in several blocks
    ProductShape shape;
    shape.m = rows, shape.n = 576, shape.k = 512, shape.transpose_a = true;
    const std::vector<float> a = Values(shape.m * shape.k), b = Values(shape.n * shape.k);
    std::vector<float> expected;
    for (ThreadPool* thread_pool :
         {static_cast<ThreadPool*>(nullptr), static_cast<ThreadPool*>(&two),
          static_cast<ThreadPool*>(&three)}) {
      const auto product =
          Product::Prepare(shape, thread_pool == nullptr ? 1 : thread_pool->threads());
      ASSERT_TRUE(product.ok()) << product.status();
      // Of each of three threads what it gathers and where oneDNN works, and b's panels.
      EXPECT_LE((*product)->scratch(), 3 * ((4 << 18) + (4 << 16) + 64) + 4 * (512 * 576 + 64));
      std::vector<float> c(shape.m * shape.n, std::nanf(""));
      std::vector<std::byte> scratch((*product)->scratch());
      CpuStream stream(thread_pool);
      const KernelContext context = {.stream = &stream};
      (*product)->Run(context, Bytes(a), Bytes(b), Bytes(&c), scratch.data());
      if (thread_pool == nullptr) expected = c;
      EXPECT_EQ(std::memcmp(c.data(), expected.data(), c.size() * 4), 0)
          << rows << " rows, " << (thread_pool == nullptr ? 1 : thread_pool->threads())
          << " threads";
    }
  }
}

// Sums of many parts, against f64; and rows are the same however they are cut among threads.
TEST(ProductTest, ADeepProductIsTheSumOfItsParts) {
  InitKernelThread();
  CpuThreadPool three(3, InitKernelThread);
  const std::vector<std::pair<DType, int64_t>> cases = {
      {DType::kF32, 13000}, {DType::kBF16, 13000}, {DType::kF32, 12289}, {DType::kBF16, 12289}};
  for (const auto& [dtype, depth] : cases) {  // 12289 leaves one over whole parts
    ProductShape shape;
    shape.m = 40, shape.n = 96, shape.k = depth;
    shape.operands = shape.result = dtype;
    ASSERT_TRUE(IsDeep(shape));
    const std::vector<float> x = Values(shape.m * shape.k), y = Values(shape.k * shape.n);
    const int64_t size = SizeOf(dtype);
    std::vector<std::byte> a(x.size() * size), b(y.size() * size), expected;
    for (size_t i = 0; i < x.size(); ++i) StoreElement(dtype, a.data(), i, x[i]);
    for (size_t i = 0; i < y.size(); ++i) StoreElement(dtype, b.data(), i, y[i]);
    for (ThreadPool* pool : {static_cast<ThreadPool*>(nullptr), static_cast<ThreadPool*>(&three)}) {
      const auto product = Product::Prepare(shape, pool == nullptr ? 1 : pool->threads());
      ASSERT_TRUE(product.ok()) << product.status();
      std::vector<std::byte> c(shape.m * shape.n * size), scratch((*product)->scratch() + 64);
      std::byte* const aligned =
          scratch.data() + 64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64;
      CpuStream stream(pool);
      const KernelContext context = {.stream = &stream};
      (*product)->Run(context, a.data(), b.data(), c.data(), aligned);
      if (pool == nullptr) expected = c;
      EXPECT_EQ(c, expected);
    }
    double worst = 0, largest = 0;
    for (int64_t r = 0; r < shape.m; ++r) {
      for (int64_t col = 0; col < shape.n; ++col) {
        double sum = 0;
        for (int64_t d = 0; d < shape.k; ++d) {
          sum += LoadElement(dtype, a.data(), r * shape.k + d) *
                 LoadElement(dtype, b.data(), d * shape.n + col);
        }
        const double got = LoadElement(dtype, expected.data(), r * shape.n + col);
        worst = std::max(worst, std::abs(got - sum));
        largest = std::max(largest, std::abs(sum));
      }
    }
    EXPECT_LE(worst, (dtype == DType::kF32 ? 1e-6 : 0x1p-8) * largest) << DTypeName(dtype);
  }
}

// Layouts of a mesh cut products apart, and only large ones are laid in panels: their bits are to
// agree. Edges: columns and depth that fill no panel.
TEST(ProductTest, PanelsChangeNoBit) {
  if (ProductsAreTiled()) {
    GTEST_SKIP() << "oneDNN has no panels below AVX-512; the packing of our own products is tested "
                    "in product_avx2_test";
  }
  InitKernelThread();
  for (const bool transpose_a : {false, true}) {
    for (const int64_t n : {64, 96, 257, 768, 1000, 3072}) {
      for (const int64_t k : {16, 100, 257, 768}) {
        const Multiplication::Shape shape = {150, n, k, transpose_a, false};
        const auto plain = Multiplication::Prepare(shape);
        const auto in_panels = Multiplication::PrepareInPanels(shape);
        ASSERT_TRUE(plain.ok() && in_panels.ok()) << plain.status() << in_panels.status();
        const Panels& panels = in_panels->panels();
        ASSERT_GT(panels.width, 0) << n << " columns, depth " << k;
        const std::vector<float> a = Values(shape.m * k), b = Values(k * n);
        std::vector<float> c(shape.m * n), from_panels(shape.m * n);
        std::vector<float> packed(panels.NumPanels(n) * panels.PanelElements(k), std::nanf(""));
        panels.Pack(Bytes(b), k, n, 0, 1, Bytes(&packed));
        panels.Pack(Bytes(b), k, n, 1, panels.NumPanels(n), Bytes(&packed));
        std::vector<std::byte> scratch(
            std::max(plain->scratch_bytes(), in_panels->scratch_bytes()));
        plain->Run(Bytes(a), Bytes(b), Bytes(&c), scratch.data());
        in_panels->Run(Bytes(a), Bytes(packed), Bytes(&from_panels), scratch.data());
        EXPECT_EQ(std::memcmp(c.data(), from_panels.data(), c.size() * 4), 0)
            << n << " columns, depth " << k << (transpose_a ? ", transposed a" : "");
      }
    }
  }
}

// A plan has hundreds of them, and each would hold as much as the one that runs needs.
TEST(ProductTest, HoldsNoScratchOfTheLibrary) {
#if defined(ADDRESS_SANITIZER) || defined(THREAD_SANITIZER)
  GTEST_SKIP() << "sanitizers have allocators of their own";
#endif
  if (ProductsAreTiled()) {
    GTEST_SKIP() << "below AVX-512 products are ours, and hold nothing but their shape";
  }
  InitKernelThread();
  constexpr int kMany = 16;
  const Multiplication::Shape shape = {512, 3072, 768, false, true};
  const auto first = Multiplication::Prepare(shape);
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_GT(first->scratch_bytes(), 1 << 16) << "of another shape the test would say more";
  std::vector<Multiplication> held;
  const struct mallinfo2 before = mallinfo2();
  for (int i = 0; i < kMany; ++i) {
    auto made = Multiplication::Prepare(shape);
    ASSERT_TRUE(made.ok()) << made.status();
    held.push_back(*std::move(made));
  }
  const struct mallinfo2 after = mallinfo2();
  const size_t taken = after.uordblks + after.hblkhd - before.uordblks - before.hblkhd;
  EXPECT_LT(taken, kMany * static_cast<size_t>(first->scratch_bytes()) / 4);
}

TEST(ProductTest, AllocatesOnlyInsideTheLibraryAndLittleThere) {
  InitKernelThread();
  CpuThreadPool thread_pool(2, InitKernelThread);
  CpuStream stream(&thread_pool);
  KernelContext context;
  context.stream = &stream;
  for (bool transposed : {false, true}) {
    ProductShape shape;
    shape.m = 256, shape.n = 192, shape.k = 128, shape.transpose_a = transposed;
    const auto product = Product::Prepare(shape, 2);
    ASSERT_TRUE(product.ok()) << product.status();
    std::vector<float> a(256 * 128, 1), b(128 * 192, 1), c(256 * 192);
    std::vector<std::byte> scratch((*product)->scratch());
    (*product)->Run(context, Bytes(a), Bytes(b), Bytes(&c),
                    scratch.data());  // the library's buffers
    own_allocations = library_allocations = 0;
    for (int i = 0; i < 10; ++i) {
      (*product)->Run(context, Bytes(a), Bytes(b), Bytes(&c), scratch.data());
    }
    EXPECT_EQ(own_allocations, 0);
    EXPECT_LE(library_allocations, 2 * 10 * 10);  // bookkeeping: some five a call
    EXPECT_EQ(c[0], 128);
    EXPECT_EQ(c.back(), 128);
  }
}

}  // namespace
}  // namespace sluice::cpu
