#include "framework/kernels/cpu/convolution.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/device/cpu_thread_pool.h"
#include "framework/kernels/cpu/library_call.h"
#include "framework/kernels/cpu/tiled_product.h"
#include "framework/testing/allocations.h"
#include "gtest/gtest.h"

namespace sluice::cpu {
namespace {

constexpr ConvolutionPass kPasses[] = {ConvolutionPass::kForward, ConvolutionPass::kInputGradient,
                                       ConvolutionPass::kWeightGradient};

// A square kernel that pads as PyTorch's models do.
ConvolutionShape Square(int64_t images, int64_t size, int64_t in, int64_t out, int64_t kernel,
                        int64_t stride, int64_t groups = 1) {
  const int64_t pad = kernel / 2, places = (size + 2 * pad - kernel) / stride + 1;
  ConvolutionShape s;
  s.images = images, s.height = s.width = size, s.channels = in;
  s.out_height = s.out_width = places, s.out_channels = out;
  s.kernel_height = s.kernel_width = kernel, s.stride_height = s.stride_width = stride;
  s.padding = {pad, pad, pad, pad}, s.groups = groups;
  return s;
}

// Those of ResNet-50 and ResNet-18 on images of 224 and of 28 pixels, and MobileNet's by channel.
std::vector<ConvolutionShape> ModelShapes() {
  std::vector<ConvolutionShape> shapes = {Square(8, 224, 3, 64, 7, 2), Square(8, 28, 1, 64, 3, 1)};
  for (int64_t first : {56, 28}) {
    for (int64_t stage = 0; stage < 4; ++stage) {
      const int64_t size = (first - 1) / (1 << stage) + 1, width = 64 << stage;
      shapes.push_back(Square(8, size, width, width, 3, 1));
      shapes.push_back(Square(8, size, width, 4 * width, 1, 1));
      shapes.push_back(Square(8, size, 4 * width, width, 1, 1));
      shapes.push_back(Square(8, size, 2 * width, 2 * width, 3, 2));
      shapes.push_back(Square(8, size, width, 2 * width, 3, 2));
      shapes.push_back(Square(8, size, 4 * width, 8 * width, 1, 2));
      shapes.push_back(Square(8, size, 2 * width, 2 * width, 3, 1, 2 * width));
      shapes.push_back(Square(8, size, 2 * width, 2 * width, 3, 2, 2 * width));
    }
  }
  return shapes;
}

std::string TextOf(const ConvolutionShape& s) {
  return absl::StrCat(s.images, "x", s.height, "x", s.width, "x", s.channels, ", ", s.kernel_height,
                      "x", s.kernel_width, " stride ", s.stride_height, " to ", s.out_channels,
                      " in ", s.groups, " groups of ", s.operands == DType::kF32 ? "f32" : "bf16");
}

TEST(ConvolutionTest, NoShapeOfModelsIsLeftToPlainLoopsOrAReference) {
  for (ConvolutionShape shape : ModelShapes()) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      shape.operands = dtype;
      for (const ConvolutionPass pass : kPasses) {
        const auto convolution = Convolution::Prepare(pass, shape, 2);
        ASSERT_TRUE(convolution.ok()) << convolution.status();
        const std::string name = (*convolution)->implementation();
        EXPECT_FALSE(name.empty()) << TextOf(shape) << " is left to plain loops";
        EXPECT_FALSE(absl::StrContains(name, "ref")) << name << ": " << TextOf(shape);
        // It allocates megabytes at every call.
        EXPECT_FALSE(absl::StrContains(name, "gemm")) << name << ": " << TextOf(shape);
      }
    }
  }
}

// Values that fill their mantissas, so that another order of a sum shows.
std::vector<std::byte> Values(int64_t n, DType dtype) {
  std::vector<std::byte> bytes(n * SizeOf(dtype));
  uint32_t state = 1;
  for (int64_t i = 0; i < n; ++i) {
    state = state * 1664525 + 1013904223;
    const float value = static_cast<float>(static_cast<int32_t>(state)) * 0x1p-31f;
    const uint16_t low = FloatToBFloat16(value);
    std::memcpy(bytes.data() + i * SizeOf(dtype),
                dtype == DType::kF32 ? static_cast<const void*>(&value) : &low, SizeOf(dtype));
  }
  return bytes;
}

struct Tensors {
  std::vector<std::byte> x, w, y;
  explicit Tensors(const ConvolutionShape& s)
      : x(Values(s.images * s.Pixels() * s.channels, s.operands)),
        w(Values(s.WeightElements(), s.operands)),
        y(Values(s.images * s.Places() * s.out_channels, s.operands)) {}
};

std::vector<std::byte> RunPass(ConvolutionPass pass, const ConvolutionShape& s,
                               ThreadPool* thread_pool, Tensors t) {
  const auto convolution =
      Convolution::Prepare(pass, s, thread_pool == nullptr ? 1 : thread_pool->threads());
  EXPECT_TRUE(convolution.ok()) << convolution.status();
  if (!convolution.ok()) return {};
  if (pass == ConvolutionPass::kWeightGradient) t.w.resize(s.WeightElements() * 4);
  std::vector<std::byte>& result = pass == ConvolutionPass::kForward         ? t.y
                                   : pass == ConvolutionPass::kInputGradient ? t.x
                                                                             : t.w;
  std::fill(result.begin(), result.end(), std::byte{0xff});
  std::vector<std::byte> scratch((*convolution)->scratch(), std::byte{0xff});
  CpuStream stream(thread_pool);
  const KernelContext context = {.stream = &stream};
  (*convolution)->Run(context, {t.x.data(), t.w.data(), t.y.data()}, scratch.data());
  return result;
}

std::vector<std::byte> RunPass(ConvolutionPass pass, const ConvolutionShape& s,
                               ThreadPool* thread_pool) {
  return RunPass(pass, s, thread_pool, Tensors(s));
}

// What images are computed beside, and by how many threads, must not show in them: layouts of a
// mesh cut batches apart.
TEST(ConvolutionTest, AnImagesBitsAreItsOwn) {
  CpuThreadPool three(3, InitKernelThread);
  for (ConvolutionShape shape :
       {Square(8, 7, 128, 96, 3, 1), Square(8, 14, 64, 200, 1, 1), Square(8, 9, 37, 50, 3, 2),
        Square(8, 28, 64, 64, 3, 1), Square(8, 4, 96, 64, 1, 1), Square(8, 56, 3, 64, 7, 2),
        Square(8, 12, 48, 48, 3, 1, 48), Square(8, 13, 64, 96, 1, 2), Square(8, 7, 2048, 512, 1, 1),
        Square(8, 7, 500, 2048, 1, 1), Square(8, 14, 520, 72, 1, 1), Square(8, 7, 1024, 2048, 1, 1),
        Square(8, 14, 1024, 256, 1, 1)}) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      shape.operands = dtype;
      for (const ConvolutionPass pass :
           {ConvolutionPass::kForward, ConvolutionPass::kInputGradient}) {
        const std::vector<std::byte> all = RunPass(pass, shape, &three);
        for (const int64_t images : {1, 3, 5}) {
          ConvolutionShape some = shape;
          some.images = images;
          const std::vector<std::byte> first = RunPass(pass, some, nullptr);
          ASSERT_EQ(first.size() * 8, all.size() * images);
          EXPECT_EQ(std::memcmp(first.data(), all.data(), first.size()), 0)
              << images << " images of " << TextOf(shape);
        }
      }
    }
  }
}

// Both ways of cutting it, and a last piece that is smaller.
TEST(ConvolutionTest, TheNumberOfThreadsChangesNoBitOfAWeightGradient) {
  CpuThreadPool two(2, InitKernelThread), three(3, InitKernelThread);
  for (ConvolutionShape shape :
       {Square(9, 28, 32, 64, 3, 1), Square(5, 14, 160, 200, 3, 1), Square(3, 7, 256, 600, 1, 1),
        Square(3, 7, 256, 600, 1, 2), Square(9, 20, 48, 48, 3, 2, 48),
        Square(5, 14, 160, 208, 3, 2), Square(5, 14, 160, 208, 3, 1), Square(9, 28, 64, 96, 3, 2),
        Square(9, 23, 64, 200, 1, 1), Square(9, 23, 200, 40, 1, 1)}) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      shape.operands = dtype;
      const std::vector<std::byte> one = RunPass(ConvolutionPass::kWeightGradient, shape, nullptr);
      EXPECT_EQ(one, RunPass(ConvolutionPass::kWeightGradient, shape, &two)) << TextOf(shape);
      EXPECT_EQ(one, RunPass(ConvolutionPass::kWeightGradient, shape, &three)) << TextOf(shape);
    }
  }
}

// Layouts of a mesh cut channels apart; some of these products are turned over and some are not.
TEST(ConvolutionTest, WhatChannelsAreBesideChangesNoBitOfAWeightGradient) {
  const ConvolutionShape all = Square(9, 23, 64, 96, 1, 1);
  const Tensors whole(all);
  const std::vector<std::byte> dw = RunPass(ConvolutionPass::kWeightGradient, all, nullptr, whole);
  for (const int64_t first : {0, 48}) {
    ConvolutionShape some = all;
    some.out_channels = 48;
    Tensors cut(some);
    for (int64_t pixel = 0; pixel < all.images * all.Places(); ++pixel) {
      std::memcpy(cut.y.data() + pixel * 48 * 4, whole.y.data() + (pixel * 96 + first) * 4, 48 * 4);
    }
    const std::vector<std::byte> part =
        RunPass(ConvolutionPass::kWeightGradient, some, nullptr, cut);
    for (int64_t c = 0; c < all.channels; ++c) {
      EXPECT_EQ(std::memcmp(part.data() + c * 48 * 4, dw.data() + (c * 96 + first) * 4, 48 * 4), 0)
          << "channel " << c << ", out channels from " << first;
    }
  }
}

TEST(ConvolutionTest, AWeightGradientOfManyPixelsIsTheSumOverThem) {
  for (const ConvolutionShape& s : {Square(9, 23, 20, 36, 1, 1), Square(9, 23, 36, 20, 1, 1)}) {
    const Tensors t(s);
    const std::vector<std::byte> dw = RunPass(ConvolutionPass::kWeightGradient, s, nullptr, t);
    const auto at = [](const std::vector<std::byte>& bytes, int64_t i) {
      float value;
      std::memcpy(&value, bytes.data() + i * 4, 4);
      return static_cast<double>(value);
    };
    for (int64_t c = 0; c < s.channels; ++c) {
      for (int64_t o = 0; o < s.out_channels; ++o) {
        double sum = 0;
        for (int64_t pixel = 0; pixel < s.images * s.Pixels(); ++pixel) {
          sum += at(t.x, pixel * s.channels + c) * at(t.y, pixel * s.out_channels + o);
        }
        ASSERT_NEAR(at(dw, c * s.out_channels + o), sum, 1e-4) << c << ", " << o << TextOf(s);
      }
    }
  }
}

// Threads pack some channels each; together that is what one call makes of all.
TEST(ConvolutionTest, PackingInPartsIsPacking) {
  InitKernelThread();
  for (ConvolutionShape shape : {Square(1, 14, 200, 72, 3, 1), Square(1, 14, 128, 100, 1, 1)}) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      if (dtype == DType::kBF16 && ProductsAreTiled()) continue;  // computed in f32 there
      shape.operands = dtype;
      for (const ConvolutionPass pass :
           {ConvolutionPass::kForward, ConvolutionPass::kInputGradient}) {
        const auto primitive = ConvolutionPrimitive::Prepare(pass, shape);
        ASSERT_TRUE(primitive.ok()) << primitive.status();
        const std::vector<std::byte> w = Values(shape.WeightElements(), dtype);
        const auto pack = [&](const std::vector<Range>& parts) {
          std::vector<std::byte> packed(primitive->weights_bytes(), std::byte{0xff});
          for (const Range& part : parts) {
            const auto reorder = primitive->Pack(part);
            EXPECT_TRUE(reorder.ok()) << reorder.status();
            if (reorder.ok()) reorder->Run(w.data(), packed.data());
          }
          return packed;
        };
        const int64_t channels = primitive->channels_to_pack();
        EXPECT_EQ(pack({{0, channels}}), pack({{64, channels}, {0, 64}})) << TextOf(shape);
      }
    }
  }
}

TEST(ConvolutionTest, AllocatesOnlyInsideTheLibraryAndLittleThere) {
  if (!kCountsAllocations) GTEST_SKIP() << "sanitizers have allocators of their own";
  InitKernelThread();
  CpuThreadPool thread_pool(2, InitKernelThread);
  CpuStream stream(&thread_pool);
  const KernelContext context = {.stream = &stream};
  for (ConvolutionShape shape :
       {Square(8, 28, 64, 64, 3, 1), Square(4, 14, 256, 600, 1, 1), Square(8, 28, 128, 64, 1, 1)}) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      shape.operands = dtype;
      for (const ConvolutionPass pass : kPasses) {
        Tensors t(shape);
        t.w.resize(shape.WeightElements() * 4);
        const auto convolution = Convolution::Prepare(pass, shape, 2);
        ASSERT_TRUE(convolution.ok()) << convolution.status();
        std::vector<std::byte> scratch((*convolution)->scratch());
        const ConvolutionOperands at = {t.x.data(), t.w.data(), t.y.data()};
        (*convolution)->Run(context, at, scratch.data());
        StartCountingAllocations(&ScopedLibraryCall::Active);
        (*convolution)->Run(context, at, scratch.data());
        const Allocations counted = CountedAllocations();
        EXPECT_EQ(counted.own, 0) << TextOf(shape);
        EXPECT_LE(counted.library, 24 * 10) << TextOf(shape);  // bookkeeping: some ten a call
        EXPECT_LE(counted.largest_library, 4096) << TextOf(shape);
      }
    }
  }
}

}  // namespace
}  // namespace sluice::cpu
