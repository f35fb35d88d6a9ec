// Blocks of places are cut by size and never reach over the end of an image, images are
// independent, and what is summed over images is summed in their order in a fixed number of parts.
// So no bit depends on threads, nor one image's on the others.
#include "framework/kernels/cpu/patch_products.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "framework/kernels/cpu/tiled_product.h"
#include "framework/kernels/cpu/vector.h"

namespace sluice::cpu {
namespace {

// Of a block's patches, which are written, packed from there, and overwritten by the next.
constexpr int64_t kPatchBytes = 1 << 20, kFewestPlaces = 32;
// Gradients of weights up to so many elements have parts of the batch; those of more have products
// large enough for threads to share.
constexpr int64_t kSmallWeights = 1 << 17, kMostParts = 8, kPartProducts = 1 << 20;

}  // namespace

bool PatchProducts::Suits(const ConvolutionShape& s) {
  return ProductsAreTiled() && s.operands == DType::kF32 && s.groups == 1;
}

absl::StatusOr<std::shared_ptr<const Convolution>> PatchProducts::Make(ConvolutionPass pass,
                                                                       const ConvolutionShape& s,
                                                                       int threads) {
  auto made = std::make_shared<PatchProducts>();
  made->pass_ = pass, made->s_ = s;
  made->depth_ = s.kernel_height * s.kernel_width * s.channels;
  made->places_ = std::min(s.Places(), std::max(kFewestPlaces, kPatchBytes / (made->depth_ * 4)));
  const bool by_weights = pass == ConvolutionPass::kWeightGradient;
  const bool small = s.WeightElements() <= kSmallWeights;
  int64_t pieces = s.images;
  if (by_weights) {
    pieces =
        small ? std::clamp<int64_t>(s.Products() / kPartProducts, 1, std::min(kMostParts, s.images))
              : 1;
    made->parts_ = pieces;
  }
  const auto prepare = [&](int64_t places) {
    ProductShape product;
    product.m = places, product.n = s.out_channels, product.k = made->depth_;
    if (pass == ConvolutionPass::kInputGradient) {
      std::swap(product.n, product.k);
      product.transpose_b = true;
    } else if (by_weights) {
      std::swap(product.m, product.k);
      product.transpose_a = true;
    }
    return Product::Prepare(product, by_weights && !small ? threads : 1);
  };
  ASSIGN_OR_RETURN(made->block_, prepare(made->places_));
  ASSIGN_OR_RETURN(made->last_, prepare((s.Places() - 1) % made->places_ + 1));
  const int64_t workers = ConvolutionWorkers(s, threads, pieces);
  const int64_t weights = s.WeightElements() * 4;
  for (int64_t i = 0; i < workers; ++i) {
    const int64_t patches = made->layout_.Reserve(made->places_ * made->depth_ * 4);
    const int64_t some = by_weights ? made->layout_.Reserve(weights) : 0;
    const int64_t own =
        made->layout_.Reserve(std::max(made->block_->scratch(), made->last_->scratch()));
    made->workers_.push_back({Cut({0, pieces}, workers, i), patches, some, own});
  }
  for (int64_t i = 0; by_weights && i < pieces; ++i) {
    made->sums_.push_back(made->layout_.Reserve(weights));
  }
  return std::shared_ptr<const Convolution>(std::move(made));
}

void PatchProducts::Run(const KernelContext& context, const ConvolutionOperands& at,
                        std::byte* scratch) const {
  ForEachPiece(context, static_cast<int64_t>(workers_.size()), [&](int64_t i) {
    const Worker& worker = workers_[i];
    for (int64_t j = worker.range.begin; j < worker.range.end; ++j) {
      if (pass_ == ConvolutionPass::kWeightGradient) {
        RunPart(context, at, j, worker, scratch);
      } else {
        RunImage(context, at, j, worker, scratch);
      }
    }
  });
  if (pass_ != ConvolutionPass::kWeightGradient) return;
  const auto part = [&](int64_t i) { return reinterpret_cast<const float*>(scratch + sums_[i]); };
  float* const dw = reinterpret_cast<float*>(at.w);
  const auto add = Vectors().f32.elementwise.add.both;
  Parallel(context, s_.WeightElements(), kCheapGrain / parts_, [&](int64_t begin, int64_t end) {
    std::copy(part(0) + begin, part(0) + end, dw + begin);
    for (int64_t p = 1; p < parts_; ++p) add(dw + begin, part(p) + begin, dw + begin, end - begin);
  });
}

void PatchProducts::RunImage(const KernelContext& context, const ConvolutionOperands& at,
                             int64_t image, const Worker& worker, std::byte* scratch) const {
  std::byte* const patches = scratch + worker.patches;
  float* const x = reinterpret_cast<float*>(at.x) + image * s_.Pixels() * s_.channels;
  const bool forward = pass_ == ConvolutionPass::kForward;
  if (!forward) std::fill(x, x + s_.Pixels() * s_.channels, 0.0f);
  for (int64_t first = 0; first < s_.Places(); first += places_) {
    const Range block = {first, std::min(first + places_, s_.Places())};
    const Product& product = block.end == s_.Places() ? *last_ : *block_;
    std::byte* const y = at.y + (image * s_.Places() + first) * s_.out_channels * 4;
    if (forward) {
      Gather(x, block, reinterpret_cast<float*>(patches));
      product.Run(context, patches, at.w, y, scratch + worker.product);
    } else {
      product.Run(context, y, at.w, patches, scratch + worker.product);
      ScatterAdd(reinterpret_cast<const float*>(patches), block, x);
    }
  }
}

void PatchProducts::RunPart(const KernelContext& context, const ConvolutionOperands& at,
                            int64_t part, const Worker& worker, std::byte* scratch) const {
  float* const patches = reinterpret_cast<float*>(scratch + worker.patches);
  float* const sum = reinterpret_cast<float*>(scratch + sums_[part]);
  float* const some = reinterpret_cast<float*>(scratch + worker.weights);
  const Range images = Cut({0, s_.images}, parts_, part);
  for (int64_t image = images.begin; image < images.end; ++image) {
    const float* const x = reinterpret_cast<const float*>(at.x) + image * s_.Pixels() * s_.channels;
    for (int64_t first = 0; first < s_.Places(); first += places_) {
      const Range block = {first, std::min(first + places_, s_.Places())};
      Gather(x, block, patches);
      const bool begins = image == images.begin && first == 0;
      const Product& product = block.end == s_.Places() ? *last_ : *block_;
      product.Run(context, scratch + worker.patches,
                  at.y + (image * s_.Places() + first) * s_.out_channels * 4,
                  reinterpret_cast<std::byte*>(begins ? sum : some), scratch + worker.product);
      if (!begins) Vectors().f32.elementwise.add.both(sum, some, sum, s_.WeightElements());
    }
  }
}

template <typename F>
void PatchProducts::ForKernel(int64_t place, F&& fn) const {
  const int64_t top = place / s_.out_width * s_.stride_height - s_.padding.top;
  const int64_t left = place % s_.out_width * s_.stride_width - s_.padding.left;
  for (int64_t k = 0; k < s_.kernel_height; ++k) {
    for (int64_t l = 0; l < s_.kernel_width; ++l) {
      const int64_t row = top + k * s_.dilation_height, column = left + l * s_.dilation_width;
      const bool inside = row >= 0 && row < s_.height && column >= 0 && column < s_.width;
      fn(inside ? row * s_.width + column : -1, (k * s_.kernel_width + l) * s_.channels);
    }
  }
}

void PatchProducts::Gather(const float* image, Range places, float* patches) const {
  for (int64_t place = places.begin; place < places.end; ++place, patches += depth_) {
    ForKernel(place, [&](int64_t pixel, int64_t at) {
      if (pixel < 0) {
        std::fill(patches + at, patches + at + s_.channels, 0.0f);
      } else {
        std::memcpy(patches + at, image + pixel * s_.channels, s_.channels * 4);
      }
    });
  }
}

void PatchProducts::ScatterAdd(const float* patches, Range places, float* image) const {
  for (int64_t place = places.begin; place < places.end; ++place, patches += depth_) {
    ForKernel(place, [&](int64_t pixel, int64_t at) {
      if (pixel < 0) return;
      float* const to = image + pixel * s_.channels;
      for (int64_t c = 0; c < s_.channels; ++c) to[c] += patches[at + c];
    });
  }
}

}  // namespace sluice::cpu
