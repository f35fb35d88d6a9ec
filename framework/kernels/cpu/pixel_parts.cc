// Such a gradient is x, transposed, times y over all pixels. Threads that took rows of it would
// each copy their channels of x out of between the others': on two threads that took a third more
// time than half of what one thread takes. So each of some parts of the pixels, which lie in one
// piece, has a gradient, and these are added in order.
#include "framework/kernels/cpu/pixel_parts.h"

#include <algorithm>
#include <utility>

#include "framework/kernels/cpu/tiled_product.h"
#include "framework/kernels/cpu/vector.h"

namespace sluice::cpu {
namespace {

constexpr int64_t kParts = 8;

// With fewer columns than rows oneDNN copies more of x, a column at a time, than it multiplies:
// dy^T x, turned afterwards, takes 0.74 of the time of x^T dy of 256 x 64 and 0.89 of 256 x 128
// channels (Zen 5, one thread, 25,088 pixels); of 512 x 128 and larger it gains nothing. No bit
// depends on it (convolution_test).
bool GainsTurned(const ConvolutionShape& s) {
  return s.out_channels < s.channels && s.out_channels <= 128 && s.channels <= 256;
}

}  // namespace

bool PixelParts::Suits(const ConvolutionShape& s) {
  constexpr int64_t kFewest = 4096;
  // A product of tiles packs what it takes of x, however it lies, and is a sum of parts anyway.
  return s.operands == DType::kF32 && s.images * s.Pixels() >= kFewest && !ProductsAreTiled();
}

absl::StatusOr<std::shared_ptr<const Convolution>> PixelParts::Make(const ConvolutionShape& s,
                                                                    int threads) {
  auto made = std::make_shared<PixelParts>();
  made->turned_ = GainsTurned(s);
  made->rows_ = made->turned_ ? s.out_channels : s.channels;
  made->columns_ = made->turned_ ? s.channels : s.out_channels;
  const int64_t pixels = s.images * s.Pixels(), groups = (pixels + 15) / 16;
  int64_t library = 0;
  for (int64_t i = 0; i < kParts; ++i) {
    const Range cut = Cut({0, groups}, kParts, i);
    const int64_t first = cut.begin * 16;
    Multiplication::Shape part;
    part.m = made->rows_, part.n = made->columns_;
    part.k = std::min(cut.end * 16, pixels) - first;
    part.transpose_a = true;
    ASSIGN_OR_RETURN(Multiplication run, Multiplication::Prepare(part));
    library = std::max(library, run.scratch_bytes());
    made->parts_.push_back(
        {first, std::move(run), made->layout_.Reserve(made->rows_ * made->columns_ * 4)});
  }
  const int64_t workers = ConvolutionWorkers(s, threads, kParts);
  for (int64_t i = 0; i < workers; ++i) {
    made->workers_.push_back({Cut({0, kParts}, workers, i), made->layout_.Reserve(library)});
  }
  return std::shared_ptr<const Convolution>(std::move(made));
}

void PixelParts::Run(const KernelContext& context, const ConvolutionOperands& at,
                     std::byte* scratch) const {
  const std::byte *a = turned_ ? at.y : at.x, *b = turned_ ? at.x : at.y;
  ForEachPiece(context, static_cast<int64_t>(workers_.size()), [&](int64_t i) {
    const Worker& worker = workers_[i];
    for (int64_t p = worker.parts.begin; p < worker.parts.end; ++p) {
      const Part& part = parts_[p];
      part.run.Run(a + part.first * rows_ * 4, b + part.first * columns_ * 4, scratch + part.sums,
                   scratch + worker.library);
    }
  });
  AddUp(context, scratch, reinterpret_cast<float*>(at.w));
}

void PixelParts::AddUp(const KernelContext& context, std::byte* scratch, float* dw) const {
  const auto add = Vectors().f32.elementwise.add.both;
  ParallelRows(context, rows_, columns_ * kParts, kCheapGrain, [&](int64_t begin, int64_t end) {
    const int64_t first = begin * columns_, elements = (end - begin) * columns_;
    const auto sums = [&](int64_t p) {
      return reinterpret_cast<float*>(scratch + parts_[p].sums) + first;
    };
    float* const to = turned_ ? sums(0) : dw + first;
    add(sums(0), sums(1), to, elements);
    for (int64_t p = 2; p < kParts; ++p) add(to, sums(p), to, elements);
    if (turned_) {
      Vectors().arithmetic.transpose(to, columns_, end - begin, columns_, dw + begin, rows_);
    }
  });
}

}  // namespace sluice::cpu
