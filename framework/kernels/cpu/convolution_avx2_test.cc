// Convolutions on a processor that has AVX2 and no more: oneDNN has none of bf16 there, and only
// copying ones of some groups, of most kernels with dilation and of some with a stride.
#include <dnnl.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "framework/device/cpu_thread_pool.h"
#include "framework/kernels/cpu/convolution.h"
#include "framework/kernels/cpu/library_call.h"
#include "framework/tensor/dtype.h"
#include "gtest/gtest.h"

namespace sluice::cpu {
namespace {

// Before oneDNN looks at the processor.
const dnnl_status_t kLimited = dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx2);

ConvolutionShape ShapeOf(int64_t channels, int64_t groups) {
  ConvolutionShape s;
  s.images = 3, s.height = s.out_height = 9, s.width = s.out_width = 8;
  s.channels = s.out_channels = channels, s.groups = groups;
  s.kernel_height = s.kernel_width = 3, s.padding = {1, 1, 1, 1};
  return s;
}

std::vector<float> Values(int64_t n) {
  std::vector<float> values(n);
  uint32_t state = 1;
  for (float& value : values) {
    state = state * 1664525 + 1013904223;
    value = BFloat16ToFloat(
        FloatToBFloat16(static_cast<float>(static_cast<int32_t>(state)) * 0x1p-31f));
  }
  return values;
}
std::vector<uint16_t> Narrowed(const std::vector<float>& values) {
  std::vector<uint16_t> low;
  for (float value : values) low.push_back(FloatToBFloat16(value));
  return low;
}

std::vector<float> Expected(const ConvolutionShape& s, const std::vector<float>& x,
                            const std::vector<float>& w) {
  std::vector<float> y(s.images * s.Places() * s.out_channels);
  const int64_t in = s.channels / s.groups, out = s.out_channels / s.groups;
  for (size_t i = 0; i < y.size(); ++i) {
    const int64_t o = i % s.out_channels, place = i / s.out_channels;
    const int64_t q = place % s.out_width, p = place / s.out_width % s.out_height;
    double sum = 0;
    for (int64_t k = 0; k < 9; ++k) {
      const int64_t row = p + k / 3 - 1, column = q + k % 3 - 1;
      if (row < 0 || column < 0 || row >= s.height || column >= s.width) continue;
      const int64_t from =
          ((place / s.Places() * s.height + row) * s.width + column) * s.channels + o / out * in;
      for (int64_t c = 0; c < in; ++c) {
        sum += double{x[from + c]} * double{w[(k * in + c) * s.out_channels + o]};
      }
    }
    y[i] = static_cast<float>(sum);
  }
  return y;
}

template <typename T>
std::vector<T> Run(const ConvolutionShape& s, std::vector<T> x, std::vector<T> w,
                   std::string* implementation) {
  const auto convolution = Convolution::Prepare(ConvolutionPass::kForward, s, 1);
  EXPECT_TRUE(convolution.ok()) << convolution.status();
  if (!convolution.ok()) return {};
  std::vector<T> y(s.images * s.Places() * s.out_channels);
  std::vector<std::byte> scratch((*convolution)->scratch());
  (*convolution)
      ->Run({},
            {reinterpret_cast<std::byte*>(x.data()), reinterpret_cast<std::byte*>(w.data()),
             reinterpret_cast<std::byte*>(y.data())},
            scratch.data());
  *implementation = (*convolution)->implementation();
  return y;
}

void ExpectBothTypes(ConvolutionShape shape, const std::string& implementation) {
  ASSERT_EQ(kLimited, dnnl_success);
  const std::vector<float> x = Values(shape.images * shape.Pixels() * shape.channels);
  const std::vector<float> w = Values(shape.WeightElements());
  const std::vector<float> expected = Expected(shape, x, w);
  std::string f32_by, bf16_by;
  const std::vector<float> y = Run(shape, x, w, &f32_by);
  shape.operands = DType::kBF16;
  const std::vector<uint16_t> low = Run(shape, Narrowed(x), Narrowed(w), &bf16_by);
  EXPECT_EQ(f32_by, implementation);
  EXPECT_EQ(bf16_by, implementation);
  ASSERT_EQ(y.size(), expected.size());
  ASSERT_EQ(low.size(), expected.size());
  for (size_t i = 0; i < y.size(); ++i) {
    ASSERT_NEAR(y[i], expected[i], 1e-4) << i;
    ASSERT_NEAR(BFloat16ToFloat(low[i]), expected[i], 0x1p-8 * std::abs(expected[i]) + 1e-4) << i;
  }
}

TEST(ConvolutionAvx2Test, Bf16IsComputedInF32) { ExpectBothTypes(ShapeOf(24, 1), "jit:avx2"); }

// A kernel of one element, whose gradient would be a product.
TEST(ConvolutionAvx2Test, AProductOfBf16IsComputedInF32) {
  ASSERT_EQ(kLimited, dnnl_success);
  ConvolutionShape shape = ShapeOf(24, 1);
  shape.kernel_height = shape.kernel_width = 1;
  shape.padding = {};
  shape.operands = DType::kBF16;
  std::vector<uint16_t> x = Narrowed(Values(shape.images * shape.Pixels() * shape.channels));
  std::vector<uint16_t> dy = Narrowed(Values(shape.images * shape.Places() * shape.out_channels));
  std::vector<float> dw(shape.WeightElements());
  const auto gradient = Convolution::Prepare(ConvolutionPass::kWeightGradient, shape, 1);
  ASSERT_TRUE(gradient.ok()) << gradient.status();
  std::vector<std::byte> scratch((*gradient)->scratch());
  (*gradient)->Run({},
                   {reinterpret_cast<std::byte*>(x.data()), reinterpret_cast<std::byte*>(dw.data()),
                    reinterpret_cast<std::byte*>(dy.data())},
                   scratch.data());
  for (int64_t i = 0; i < shape.WeightElements(); ++i) {
    double sum = 0;
    for (int64_t place = 0; place < shape.images * shape.Places(); ++place) {
      sum += double{BFloat16ToFloat(x[place * 24 + i / 24])} *
             double{BFloat16ToFloat(dy[place * 24 + i % 24])};
    }
    ASSERT_NEAR(dw[i], sum, 1e-4) << i;
  }
}

// All terms of all passes, in f64.
struct Sums {
  std::vector<double> x, w, y;
};
Sums ExpectedOf(const ConvolutionShape& s, const std::vector<float>& x, const std::vector<float>& w,
                const std::vector<float>& y) {
  Sums sums = {std::vector<double>(x.size()), std::vector<double>(w.size()),
               std::vector<double>(y.size())};
  for (int64_t i = 0; i < s.images * s.Places() * s.kernel_height * s.kernel_width; ++i) {
    const int64_t element = i % (s.kernel_height * s.kernel_width);
    const int64_t place = i / (s.kernel_height * s.kernel_width);
    const int64_t p = place / s.out_width % s.out_height, q = place % s.out_width;
    const int64_t row =
        p * s.stride_height + element / s.kernel_width * s.dilation_height - s.padding.top;
    const int64_t column =
        q * s.stride_width + element % s.kernel_width * s.dilation_width - s.padding.left;
    if (row < 0 || column < 0 || row >= s.height || column >= s.width) continue;
    const int64_t pixel = (place / s.Places() * s.height + row) * s.width + column;
    for (int64_t c = 0; c < s.channels; ++c) {
      for (int64_t o = 0; o < s.out_channels; ++o) {
        const int64_t at_x = pixel * s.channels + c, at_y = place * s.out_channels + o;
        const int64_t at_w = (element * s.channels + c) * s.out_channels + o;
        sums.x[at_x] += double{w[at_w]} * double{y[at_y]};
        sums.w[at_w] += double{x[at_x]} * double{y[at_y]};
        sums.y[at_y] += double{x[at_x]} * double{w[at_w]};
      }
    }
  }
  return sums;
}

// What a pass makes, by so many threads.
std::vector<float> ResultOf(ConvolutionPass pass, const ConvolutionShape& s, int threads,
                            std::vector<float> x, std::vector<float> w, std::vector<float> y) {
  const auto convolution = Convolution::Prepare(pass, s, threads);
  EXPECT_TRUE(convolution.ok()) << convolution.status();
  if (!convolution.ok()) return {};
  EXPECT_EQ((*convolution)->implementation(), "tiled:avx2");
  std::vector<float>& result = pass == ConvolutionPass::kForward         ? y
                               : pass == ConvolutionPass::kInputGradient ? x
                                                                         : w;
  std::fill(result.begin(), result.end(), std::nanf(""));
  std::vector<std::byte> scratch((*convolution)->scratch(), std::byte{0xff});
  CpuThreadPool pool(threads, InitKernelThread);
  CpuStream stream(&pool);
  const KernelContext context = {.stream = &stream};
  (*convolution)
      ->Run(context,
            {reinterpret_cast<std::byte*>(x.data()), reinterpret_cast<std::byte*>(w.data()),
             reinterpret_cast<std::byte*>(y.data())},
            scratch.data());
  return result;
}

void ExpectNear(const std::vector<float>& got, const std::vector<double>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  double largest = 0;
  for (double value : expected) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], expected[i], 1e-5 * largest) << i;
  }
}

ConvolutionShape Dilated(int64_t channels, int64_t height, int64_t width) {
  ConvolutionShape s = ShapeOf(channels, 1);
  s.height = s.out_height = height, s.width = s.out_width = width;
  s.kernel_height = s.kernel_width = 5, s.dilation_height = s.dilation_width = 2;
  s.padding = {4, 4, 4, 4};
  return s;
}

// oneDNN has none of any pass but one that copies. Blocks of places, a last one that is smaller,
// weights small and large, all that can be uneven.
TEST(ConvolutionAvx2Test, DilatedOnesAreProductsOfPatches) {
  ASSERT_EQ(kLimited, dnnl_success);
  ConvolutionShape large = Dilated(5, 90, 81), uneven = Dilated(6, 13, 12),
                   deep = Dilated(131, 9, 8);
  uneven.out_height = 5, uneven.out_width = 10, uneven.stride_height = 2;
  uneven.padding = {3, 1, 4, 2}, uneven.out_channels = 7;
  for (const ConvolutionShape& s : {large, uneven, deep}) {
    const std::vector<float> x = Values(s.images * s.Pixels() * s.channels);
    const std::vector<float> w = Values(s.WeightElements());
    const std::vector<float> y = Values(s.images * s.Places() * s.out_channels);
    const Sums expected = ExpectedOf(s, x, w, y);
    const auto result = [&](ConvolutionPass pass, int threads) {
      return ResultOf(pass, s, threads, x, w, y);
    };
    ConvolutionShape first = s;
    first.images = 1;
    const auto expect_own = [&](ConvolutionPass pass, const std::vector<float>& all) {
      const std::vector<float> one =
          ResultOf(pass, first, 1, {x.begin(), x.begin() + s.Pixels() * s.channels}, w,
                   {y.begin(), y.begin() + s.Places() * s.out_channels});
      EXPECT_EQ(std::memcmp(one.data(), all.data(), one.size() * 4), 0) << "an image by itself";
      EXPECT_EQ(all, result(pass, 1));
    };
    const std::vector<float> forward = result(ConvolutionPass::kForward, 3);
    ExpectNear(forward, expected.y);
    expect_own(ConvolutionPass::kForward, forward);
    const std::vector<float> by_input = result(ConvolutionPass::kInputGradient, 3);
    ExpectNear(by_input, expected.x);
    expect_own(ConvolutionPass::kInputGradient, by_input);
    const std::vector<float> by_weights = result(ConvolutionPass::kWeightGradient, 3);
    ExpectNear(by_weights, expected.w);
    EXPECT_EQ(by_weights, result(ConvolutionPass::kWeightGradient, 1));
    EXPECT_EQ(by_weights, result(ConvolutionPass::kWeightGradient, 2));
  }
}

// Plain loops, in both types.
TEST(ConvolutionAvx2Test, NothingThatCopiesIsTaken) { ExpectBothTypes(ShapeOf(64, 32), ""); }

}  // namespace
}  // namespace sluice::cpu
