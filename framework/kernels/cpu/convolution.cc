#include "framework/kernels/cpu/convolution.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "framework/kernels/cpu/library_call.h"
#include "framework/kernels/cpu/patch_products.h"
#include "framework/kernels/cpu/pixel_parts.h"
#include "framework/kernels/cpu/product.h"
#include "framework/kernels/cpu/strided_pixels.h"
#include "framework/kernels/cpu/tiled_product.h"
#include "framework/kernels/cpu/vector.h"
#include "framework/kernels/cpu/weight_gradient.h"

namespace sluice::cpu {
namespace {

// Below this many products a call of oneDNN costs more than plain loops.
constexpr int64_t kSmall = 2048;
// Products that are worth another thread.
constexpr int64_t kGrain = 1 << 18;
// The op bounds scratch by as many (ops/convolution.cc).
constexpr int64_t kMostWorkers = 16;

// Forward and by input: images are independent, and threads take some each. They are cut into
// blocks by their size, of one image where it has places enough to keep oneDNN busy (measured: one
// image of 14x14 is as fast as eight together), so that the number of threads changes no bit. Nor
// does the number of images in a block, which a small batch limits (convolution_test).
class ByImages : public Convolution {
 public:
  static absl::StatusOr<std::shared_ptr<const Convolution>> Make(ConvolutionPass pass,
                                                                 const ConvolutionShape& shape,
                                                                 int threads) {
    constexpr int64_t kPlaces = 128;
    auto made = std::make_shared<ByImages>();
    made->shape_ = shape;
    made->block_ = std::clamp<int64_t>(kPlaces / shape.Places(), 1, shape.images);
    const int64_t blocks = (shape.images + made->block_ - 1) / made->block_;
    const int64_t workers = ConvolutionWorkers(shape, threads, blocks);
    for (int64_t i = 0; i < workers; ++i) {
      ConvolutionShape some = shape;
      some.images = made->block_;
      ASSIGN_OR_RETURN(ConvolutionPrimitive block, ConvolutionPrimitive::Prepare(pass, some));
      some.images = shape.images - (blocks - 1) * made->block_;
      ASSIGN_OR_RETURN(ConvolutionPrimitive last, ConvolutionPrimitive::Prepare(pass, some));
      const int64_t at =
          made->parts_.Reserve(std::max(block.scratch_bytes(), last.scratch_bytes()));
      made->workers_.push_back(
          {Cut({0, blocks}, workers, i), std::move(block), std::move(last), at});
    }
    const Worker& first = made->workers_[0];
    ASSIGN_OR_RETURN(made->packed_, made->AddPacks(first.block));
    made->packed_last_ = made->packed_;
    if (!first.block.LikesSameWeights(first.last)) {
      ASSIGN_OR_RETURN(made->packed_last_, made->AddPacks(first.last));
    }
    return std::shared_ptr<const Convolution>(std::move(made));
  }

  void Run(const KernelContext& context, const ConvolutionOperands& at,
           std::byte* scratch) const override {
    ForEachPiece(context, static_cast<int64_t>(packs_.size()),
                 [&](int64_t i) { packs_[i].reorder.Run(at.w, scratch + packs_[i].to); });
    const int64_t size = SizeOf(shape_.operands);
    const int64_t x_step = block_ * shape_.Pixels() * shape_.channels * size;
    const int64_t y_step = block_ * shape_.Places() * shape_.out_channels * size;
    const int64_t last = (shape_.images - 1) / block_;
    ForEachPiece(context, static_cast<int64_t>(workers_.size()), [&](int64_t i) {
      const Worker& worker = workers_[i];
      for (int64_t b = worker.blocks.begin; b < worker.blocks.end; ++b) {
        const ConvolutionPrimitive& run = b == last ? worker.last : worker.block;
        run.Run(at.x + b * x_step, scratch + (b == last ? packed_last_ : packed_),
                at.y + b * y_step, scratch + worker.scratch);
      }
    });
  }

  int64_t scratch() const override { return parts_.bytes(); }
  std::string implementation() const override { return workers_[0].block.implementation(); }

 private:
  struct Worker {
    Range blocks;
    ConvolutionPrimitive block, last;
    int64_t scratch;
  };
  struct Pack {
    LayoutReorder reorder;
    int64_t to;
  };

  // Gives weights a place in the layout that a primitive likes, to which threads move some of the
  // channels that it sums over.
  absl::StatusOr<int64_t> AddPacks(const ConvolutionPrimitive& primitive) {
    constexpr int64_t kChannels = 64, kElements = 1 << 16;
    const int64_t to = parts_.Reserve(primitive.weights_bytes());
    const int64_t channels = primitive.channels_to_pack();
    const int64_t groups = (channels + kChannels - 1) / kChannels;
    const int64_t pieces =
        std::clamp<int64_t>(shape_.WeightElements() / kElements, 1, std::min<int64_t>(groups, 8));
    for (int64_t i = 0; i < pieces; ++i) {
      const Range some = Cut({0, groups}, pieces, i);
      ASSIGN_OR_RETURN(
          LayoutReorder reorder,
          primitive.Pack({some.begin * kChannels, std::min(some.end * kChannels, channels)}));
      packs_.push_back({std::move(reorder), to});
    }
    return to;
  }

  ConvolutionShape shape_;
  int64_t block_ = 1;  // images; the last may have fewer
  std::vector<Worker> workers_;
  std::vector<Pack> packs_;
  int64_t packed_ = 0, packed_last_ = 0;  // where in scratch weights lie for a block and the last
  ScratchLayout parts_;
};

// A kernel of one element that moves by one: a matrix product over all pixels. As such it is faster
// where oneDNN 2.6 has no convolution that fits. On an Intel processor with AMX (one thread,
// ResNet-50's shapes, fastest of alternating runs):
//   by weights   in bf16 390 to 680 GFLOP/s where the convolution has 60 to 300, and in f32 up to
//                1.4 times as fast
//   by input     in f32 1.05 to 1.2 times as fast, 1.8 times on images of 7x7, whose weights are
//                many and packed at each call: as a product, they are read as they lie. In bf16 1.0
//                to 1.4 times, and twice
//   forward      the same within 10 %, but for small images, 1.05 to 1.1 times in f32 and 1.1 to
//                1.5 in bf16; and in bf16, with fewer channels out than in, 1.3 to 2.2 times
class AsProduct : public Convolution {
 public:
  static bool Suits(ConvolutionPass pass, const ConvolutionShape& s) {
    const bool over_pixels = s.kernel_height * s.kernel_width == 1 &&
                             s.stride_height * s.stride_width == 1 && s.out_height == s.height &&
                             s.out_width == s.width && s.padding.top == 0 && s.padding.left == 0 &&
                             s.groups == 1;
    if (!over_pixels || pass == ConvolutionPass::kWeightGradient) return over_pixels;
    // Whose bits are a row's own by construction.
    if (ProductsAreTiled()) return true;
    // In bf16, deeper sums are cut by the number of rows, and an image's bits would depend on how
    // many others lie beside it. Up to here, as in f32 everywhere, they do not (convolution_test).
    constexpr int64_t kDeepest = 1024, kSmallImage = 128;
    const bool forward = pass == ConvolutionPass::kForward, low = s.operands == DType::kBF16;
    if (low && (forward ? s.channels : s.out_channels) > kDeepest) return false;
    const bool narrows = low && s.channels > s.out_channels;
    return !forward || (__builtin_cpu_is("intel") != 0 && (s.Places() < kSmallImage || narrows));
  }

  static absl::StatusOr<std::shared_ptr<const Convolution>> Make(ConvolutionPass pass,
                                                                 const ConvolutionShape& s,
                                                                 int threads) {
    const int64_t pixels = s.images * s.Pixels();
    ProductShape product;
    product.operands = product.result = s.operands;
    if (pass == ConvolutionPass::kForward) {
      product.m = pixels, product.n = s.out_channels, product.k = s.channels;
    } else if (pass == ConvolutionPass::kInputGradient) {
      product.m = pixels, product.n = s.channels, product.k = s.out_channels;
      product.transpose_b = true;
    } else {
      product.m = s.channels, product.n = s.out_channels, product.k = pixels;
      product.transpose_a = true;
      product.result = DType::kF32;
    }
    auto made = std::make_shared<AsProduct>();
    made->pass_ = pass;
    ASSIGN_OR_RETURN(made->product_, Product::Prepare(product, threads));
    return std::shared_ptr<const Convolution>(std::move(made));
  }

  void Run(const KernelContext& context, const ConvolutionOperands& at,
           std::byte* scratch) const override {
    if (pass_ == ConvolutionPass::kForward) {
      product_->Run(context, at.x, at.w, at.y, scratch);
    } else if (pass_ == ConvolutionPass::kInputGradient) {
      product_->Run(context, at.y, at.w, at.x, scratch);
    } else {
      product_->Run(context, at.x, at.y, at.w, scratch);
    }
  }
  int64_t scratch() const override { return product_->scratch(); }
  std::string implementation() const override { return product_->implementation(); }

 private:
  ConvolutionPass pass_ = ConvolutionPass::kForward;
  std::shared_ptr<const Product> product_;
};

// Plain loops, on the calling thread: for small convolutions, those with nothing to sum, and the
// few that oneDNN has no fast implementation of.
class PlainConvolution : public Convolution {
 public:
  PlainConvolution(ConvolutionPass pass, const ConvolutionShape& shape)
      : pass_(pass), s_(shape), channels_(shape.channels / shape.groups) {}

  void Run(const KernelContext&, const ConvolutionOperands& at, std::byte*) const override {
    s_.operands == DType::kBF16 ? RunOf<uint16_t>(at) : RunOf<float>(at);
  }
  int64_t scratch() const override { return 0; }
  std::string implementation() const override { return ""; }

 private:
  static float Wide(float x) { return x; }
  static float Wide(uint16_t x) { return BFloat16ToFloat(x); }
  static void Put(float sum, float* to) { *to = sum; }
  static void Put(float sum, uint16_t* to) { *to = FloatToBFloat16(sum); }

  int64_t XAt(int64_t n, int64_t row, int64_t column) const {
    return ((n * s_.height + row) * s_.width + column) * s_.channels;
  }
  int64_t YAt(int64_t n, int64_t p, int64_t q) const {
    return ((n * s_.out_height + p) * s_.out_width + q) * s_.out_channels;
  }
  int64_t WAt(int64_t k, int64_t l, int64_t c) const {
    return ((k * s_.kernel_width + l) * channels_ + c) * s_.out_channels;
  }
  // The pixel under an element of the kernel, or -1.
  int64_t Row(int64_t p, int64_t k) const {
    const int64_t row = p * s_.stride_height + k * s_.dilation_height - s_.padding.top;
    return row < s_.height ? row : -1;
  }
  int64_t Column(int64_t q, int64_t l) const {
    const int64_t column = q * s_.stride_width + l * s_.dilation_width - s_.padding.left;
    return column < s_.width ? column : -1;
  }
  // The place at which an element of the kernel lies on a pixel, or -1.
  static int64_t Place(int64_t pixel, int64_t padding, int64_t shift, int64_t stride,
                       int64_t places) {
    const int64_t at = pixel + padding - shift;
    return at >= 0 && at % stride == 0 && at / stride < places ? at / stride : -1;
  }

  template <typename T>
  void RunOf(const ConvolutionOperands& at) const {
    T *x = reinterpret_cast<T*>(at.x), *w = reinterpret_cast<T*>(at.w),
      *y = reinterpret_cast<T*>(at.y);
    if (pass_ == ConvolutionPass::kForward) {
      Forward(x, w, y);
    } else if (pass_ == ConvolutionPass::kInputGradient) {
      InputGradient(x, w, y);
    } else {
      WeightGradient(x, reinterpret_cast<float*>(at.w), y);
    }
  }

  template <typename T>
  void Forward(const T* x, const T* w, T* y) const {
    const int64_t of_group = s_.out_channels / s_.groups;
    for (int64_t i = 0; i < s_.images * s_.Places(); ++i) {
      const int64_t n = i / s_.Places(), place = i % s_.Places();
      const int64_t p = place / s_.out_width, q = place % s_.out_width;
      for (int64_t o = 0; o < s_.out_channels; ++o) {
        float sum = 0;
        ForKernel([&](int64_t k, int64_t l) {
          const int64_t row = Row(p, k), column = Column(q, l);
          if (row < 0 || column < 0) return;
          const T* from = x + XAt(n, row, column) + o / of_group * channels_;
          for (int64_t c = 0; c < channels_; ++c) sum += Wide(from[c]) * Wide(w[WAt(k, l, c) + o]);
        });
        Put(sum, y + i * s_.out_channels + o);
      }
    }
  }

  template <typename T>
  void InputGradient(T* dx, const T* w, const T* dy) const {
    const int64_t of_group = s_.out_channels / s_.groups;
    for (int64_t i = 0; i < s_.images * s_.Pixels(); ++i) {
      const int64_t n = i / s_.Pixels(), pixel = i % s_.Pixels();
      for (int64_t c = 0; c < s_.channels; ++c) {
        float sum = 0;
        ForKernel([&](int64_t k, int64_t l) {
          const int64_t p = Place(pixel / s_.width, s_.padding.top, k * s_.dilation_height,
                                  s_.stride_height, s_.out_height);
          const int64_t q = Place(pixel % s_.width, s_.padding.left, l * s_.dilation_width,
                                  s_.stride_width, s_.out_width);
          if (p < 0 || q < 0) return;
          const int64_t first = c / channels_ * of_group;
          const T *from = dy + YAt(n, p, q) + first,
                  *weights = w + WAt(k, l, c % channels_) + first;
          for (int64_t o = 0; o < of_group; ++o) sum += Wide(from[o]) * Wide(weights[o]);
        });
        Put(sum, dx + i * s_.channels + c);
      }
    }
  }

  template <typename T>
  void WeightGradient(const T* x, float* dw, const T* dy) const {
    const int64_t of_group = s_.out_channels / s_.groups;
    std::fill(dw, dw + s_.WeightElements(), 0.0f);
    for (int64_t i = 0; i < s_.images * s_.Places(); ++i) {
      const int64_t n = i / s_.Places(), place = i % s_.Places();
      const int64_t p = place / s_.out_width, q = place % s_.out_width;
      ForKernel([&](int64_t k, int64_t l) {
        const int64_t row = Row(p, k), column = Column(q, l);
        if (row < 0 || column < 0) return;
        for (int64_t c = 0; c < channels_; ++c) {
          float* const to = dw + WAt(k, l, c);
          for (int64_t o = 0; o < s_.out_channels; ++o) {
            to[o] += Wide(x[XAt(n, row, column) + o / of_group * channels_ + c]) *
                     Wide(dy[i * s_.out_channels + o]);
          }
        }
      });
    }
  }

  template <typename F>
  void ForKernel(F&& fn) const {
    for (int64_t k = 0; k < s_.kernel_height; ++k) {
      for (int64_t l = 0; l < s_.kernel_width; ++l) fn(k, l);
    }
  }

  ConvolutionPass pass_;
  ConvolutionShape s_;
  int64_t channels_;  // of a group
};

// bf16 where the processor has no instructions that oneDNN could use for it: operands are widened,
// and the result is rounded once.
class Widened : public Convolution {
 public:
  static absl::StatusOr<std::shared_ptr<const Convolution>> Make(ConvolutionPass pass,
                                                                 const ConvolutionShape& shape,
                                                                 int threads) {
    auto made = std::make_shared<Widened>();
    made->pass_ = pass;
    ConvolutionShape wide = shape;
    wide.operands = DType::kF32;
    ASSIGN_OR_RETURN(made->convolution_, Prepare(pass, wide, threads));
    made->elements_[0] = shape.images * shape.Pixels() * shape.channels;
    made->elements_[1] = shape.WeightElements();
    made->elements_[2] = shape.images * shape.Places() * shape.out_channels;
    ScratchLayout parts;
    parts.Reserve(made->convolution_->scratch());
    for (int i = 0; i < 3; ++i) made->at_[i] = parts.Reserve(made->elements_[i] * 4);
    made->scratch_ = parts.bytes();
    return std::shared_ptr<const Convolution>(std::move(made));
  }

  void Run(const KernelContext& context, const ConvolutionOperands& at,
           std::byte* scratch) const override {
    std::byte* const low[] = {at.x, at.w, at.y};
    std::byte* wide[3];
    const int result = pass_ == ConvolutionPass::kForward         ? 2
                       : pass_ == ConvolutionPass::kInputGradient ? 0
                                                                  : 1;
    for (int i = 0; i < 3; ++i) {
      wide[i] = scratch + at_[i];
      if (i == result) continue;
      Parallel(context, elements_[i], kCheapGrain, [&](int64_t begin, int64_t end) {
        Vectors().arithmetic.from_bf16(reinterpret_cast<const BFloat16*>(low[i]) + begin,
                                       reinterpret_cast<float*>(wide[i]) + begin, end - begin);
      });
    }
    if (result == 1) wide[1] = at.w;  // f32 of bf16 operands too
    convolution_->Run(context, {wide[0], wide[1], wide[2]}, scratch);
    if (result == 1) return;
    Parallel(context, elements_[result], kCheapGrain, [&](int64_t begin, int64_t end) {
      Vectors().arithmetic.to_bf16(reinterpret_cast<const float*>(wide[result]) + begin,
                                   reinterpret_cast<BFloat16*>(low[result]) + begin, end - begin);
    });
  }
  int64_t scratch() const override { return scratch_; }
  std::string implementation() const override { return convolution_->implementation(); }

 private:
  ConvolutionPass pass_ = ConvolutionPass::kForward;
  std::shared_ptr<const Convolution> convolution_;
  int64_t elements_[3] = {}, at_[3] = {}, scratch_ = 0;  // of x, w, y
};

}  // namespace

int64_t ConvolutionWorkers(const ConvolutionShape& shape, int threads, int64_t pieces) {
  const int64_t worthwhile = std::max<int64_t>(1, shape.Products() / kGrain);
  return std::min({static_cast<int64_t>(threads), pieces, worthwhile, kMostWorkers});
}

absl::StatusOr<std::shared_ptr<const Convolution>> Convolution::Prepare(
    ConvolutionPass pass, const ConvolutionShape& shape, int threads) {
  if (shape.Products() >= kSmall) {
    // A primitive remembers the number of threads of its creation.
    InitKernelThread();
    if (StridedPixels::Suits(shape)) return StridedPixels::Make(pass, shape, threads);
    if (AsProduct::Suits(pass, shape)) {
      // Where oneDNN has no such product, the ways below have an answer.
      const bool in_parts = pass == ConvolutionPass::kWeightGradient && PixelParts::Suits(shape);
      auto made =
          in_parts ? PixelParts::Make(shape, threads) : AsProduct::Make(pass, shape, threads);
      if (made.ok()) return made;
    }
    auto made = pass == ConvolutionPass::kWeightGradient ? PrepareWeightGradient(shape, threads)
                                                         : ByImages::Make(pass, shape, threads);
    if (!absl::IsNotFound(made.status())) return made;
    if (shape.operands == DType::kBF16) return Widened::Make(pass, shape, threads);
    if (PatchProducts::Suits(shape)) return PatchProducts::Make(pass, shape, threads);
  }
  return std::shared_ptr<const Convolution>(std::make_shared<PlainConvolution>(pass, shape));
}

}  // namespace sluice::cpu
