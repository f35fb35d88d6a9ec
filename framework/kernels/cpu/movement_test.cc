// Transpositions large enough to be cut into blocks, over one thread and two.
#include <cstdint>
#include <vector>

#include "framework/attributes/attributes.h"
#include "framework/device/cpu_thread_pool.h"
#include "framework/kernels/cpu/library_call.h"
#include "framework/kernels/kernel.h"
#include "gtest/gtest.h"

namespace sluice::cpu {
namespace {

void ExpectTransposed(const Shape& x, const Shape& permutation) {
  Shape y;
  for (int64_t p : permutation) y.Append(x[static_cast<int>(p)]);
  KernelSpec spec;
  spec.op = "transpose";
  spec.attributes = PrintAttributes(TransposeAttributes{permutation});
  spec.inputs = {Shard::Whole(DType::kI32, x)};
  spec.outputs = {Shard::Whole(DType::kI32, y)};
  std::vector<int32_t> from(x.NumElements());
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<int32_t>(i);
  const Shape steps = x.Strides();
  for (int threads : {1, 2}) {
    CpuThreadPool thread_pool(threads, InitKernelThread);
    spec.threads = threads;
    const auto kernel = PrepareCpuKernel(spec);
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    std::vector<int32_t> to(from.size(), -1);
    std::byte* operands[] = {reinterpret_cast<std::byte*>(from.data()),
                             reinterpret_cast<std::byte*>(to.data())};
    CpuStream stream(&thread_pool);
    const KernelContext context = {.stream = &stream};
    ASSERT_TRUE((*kernel)->Launch(context, operands, nullptr).ok());
    for (int64_t i = 0; i < x.NumElements(); ++i) {
      int64_t expected = 0, rest = i;
      for (int d = y.rank() - 1; d >= 0; rest /= y[d], --d) {
        expected += rest % y[d] * steps[static_cast<int>(permutation[d])];
      }
      ASSERT_EQ(to[i], expected) << x.ToString() << " at " << i << ", " << threads << " threads";
    }
  }
}

TEST(MovementTest, TransposesInBlocks) {
  ExpectTransposed({300, 257}, {1, 0});
  ExpectTransposed({64, 1024}, {1, 0});
  ExpectTransposed({3, 40, 5, 130}, {0, 3, 2, 1});
  ExpectTransposed({7, 70, 3, 19}, {3, 1, 0, 2});
  ExpectTransposed({4, 33, 6, 16}, {0, 2, 1, 3});  // rows stay whole
  ExpectTransposed({0, 5}, {1, 0});
}

}  // namespace
}  // namespace sluice::cpu
