#include "framework/kernels/cpu/weight_gradient.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "framework/kernels/cpu/vector.h"

namespace sluice::cpu {
namespace {

// The gradient by weights, which is summed over images. Where it is small, parts of the batch have
// one each, and these are added in order; else pieces are of some output channels and all images,
// whose y is gathered first, for adding several large gradients would cost more. Pieces are cut by
// size alone.
//
// In f32 with a stride, images are first moved to blocks of channels, as oneDNN likes them best. As
// they lie, the pixels that a kernel reads are so far apart that they do not stay in a cache: in
// blocks the whole takes 0.5 to 0.9 of the time (ResNet-50's shapes on Zen 5, one thread). Without
// a stride, and in bf16, it gains nothing.
class ByWeights : public Convolution {
 public:
  static absl::StatusOr<std::shared_ptr<const Convolution>> Make(const ConvolutionShape& shape,
                                                                 int threads, bool in_blocks) {
    constexpr int64_t kElements = 1 << 17, kParts = 8, kPartProducts = 1 << 20, kBlock = 16;
    auto made = std::make_shared<ByWeights>();
    made->shape_ = made->piece_ = made->last_piece_ = shape;
    made->by_batch_ = shape.groups > 1 || shape.WeightElements() <= kElements;
    int64_t total = shape.images, step = 0;
    if (made->by_batch_) {
      const int64_t parts =
          std::clamp<int64_t>(shape.Products() / kPartProducts, 1, std::min(kParts, shape.images));
      step = (total + parts - 1) / parts;
    } else {
      total = shape.out_channels;
      step = std::min(total, std::clamp<int64_t>((total / 4 + 15) / 16 * 16, 32, 128));
    }
    made->step_ = step;
    made->pieces_ = (total + step - 1) / step;
    const bool strided = shape.stride_height * shape.stride_width > 1;
    const bool whole = shape.channels % kBlock == 0 && shape.out_channels % kBlock == 0;
    made->in_blocks_ =
        in_blocks && strided && whole && shape.groups == 1 && shape.operands == DType::kF32;
    const int64_t rest = total - (made->pieces_ - 1) * step;
    (made->by_batch_ ? made->piece_.images : made->piece_.out_channels) = step;
    (made->by_batch_ ? made->last_piece_.images : made->last_piece_.out_channels) = rest;
    const int64_t workers = ConvolutionWorkers(shape, threads, made->pieces_);
    for (int64_t i = 0; i < workers; ++i) {
      ASSIGN_OR_RETURN(Worker worker, made->MakeWorker(Cut({0, made->pieces_}, workers, i)));
      made->workers_.push_back(std::move(worker));
    }
    if (made->in_blocks_) {
      made->images_ = made->parts_.Reserve(shape.images * made->ImageBytes());
    }
    if (made->AddsParts()) {
      made->sums_ = made->parts_.Reserve(made->pieces_ * made->PartBytes());
    }
    return std::shared_ptr<const Convolution>(std::move(made));
  }

  void Run(const KernelContext& context, const ConvolutionOperands& at,
           std::byte* scratch) const override {
    const auto workers = static_cast<int64_t>(workers_.size());
    if (in_blocks_) {
      ForEachPiece(context, workers, [&](int64_t i) {
        const Range images = Cut({0, shape_.images}, workers, i);
        for (int64_t image = images.begin; image < images.end; ++image) {
          workers_[i].pack_image->Run(at.x + image * shape_.Pixels() * shape_.channels * Size(),
                                      scratch + images_ + image * ImageBytes());
        }
      });
    }
    ForEachPiece(context, workers, [&](int64_t i) {
      const Worker& worker = workers_[i];
      for (int64_t p = worker.pieces.begin; p < worker.pieces.end; ++p) {
        RunPiece(worker, p, at, scratch);
      }
    });
    if (!AddsParts()) return;
    float* const dw = reinterpret_cast<float*>(at.w);
    const auto part = [&](int64_t i) {
      return reinterpret_cast<const float*>(scratch + sums_ + i * PartBytes());
    };
    const auto add = Vectors().f32.elementwise.add.both;
    Parallel(context, shape_.WeightElements(), kCheapGrain / pieces_,
             [&](int64_t begin, int64_t end) {
               add(part(0) + begin, part(1) + begin, dw + begin, end - begin);
               for (int64_t p = 2; p < pieces_; ++p) {
                 add(dw + begin, part(p) + begin, dw + begin, end - begin);
               }
             });
  }

  int64_t scratch() const override { return parts_.bytes(); }
  std::string implementation() const override { return workers_[0].piece.run.implementation(); }

 private:
  // A primitive, how its gradient comes into the tensor, and y to it where it is in blocks.
  struct Call {
    ConvolutionPrimitive run;
    LayoutReorder unpack;
    std::optional<LayoutReorder> pack_result;
  };
  struct Worker {
    Range pieces;
    Call piece, last;
    std::optional<LayoutReorder> pack_image;
    int64_t scratch, packed, gathered;  // where in scratch
  };

  bool AddsParts() const { return by_batch_ && pieces_ > 1; }
  bool Gathers() const { return !by_batch_ && pieces_ > 1; }
  int64_t PartBytes() const { return AlignedBytes(shape_.WeightElements() * 4); }
  int64_t ImageBytes() const { return workers_[0].piece.run.image_bytes(); }

  absl::StatusOr<Call> MakeCall(const ConvolutionShape& shape) const {
    ASSIGN_OR_RETURN(
        ConvolutionPrimitive run,
        ConvolutionPrimitive::Prepare(ConvolutionPass::kWeightGradient, shape,
                                      in_blocks_ ? ImageLayout::kLiked : ImageLayout::kPlain));
    ASSIGN_OR_RETURN(LayoutReorder unpack, run.Unpack(shape_.out_channels));
    std::optional<LayoutReorder> pack_result;
    if (in_blocks_) {
      ASSIGN_OR_RETURN(pack_result, run.PackResult(shape_.out_channels));
    }
    return Call{std::move(run), std::move(unpack), std::move(pack_result)};
  }

  absl::StatusOr<Worker> MakeWorker(Range pieces) {
    ASSIGN_OR_RETURN(Call piece, MakeCall(piece_));
    ASSIGN_OR_RETURN(Call last, MakeCall(last_piece_));
    const int64_t scratch =
        parts_.Reserve(std::max(piece.run.scratch_bytes(), last.run.scratch_bytes()));
    const int64_t packed =
        parts_.Reserve(std::max(piece.run.weights_bytes(), last.run.weights_bytes()));
    std::optional<LayoutReorder> pack_image;
    int64_t gathered = 0;
    if (in_blocks_) {
      if (!piece.run.LikesSameImages(last.run)) {
        return absl::NotFoundError("the last piece likes other images than those before");
      }
      ASSIGN_OR_RETURN(pack_image, piece.run.PackImage());
      gathered = parts_.Reserve(std::max(piece.run.result_bytes(), last.run.result_bytes()));
    } else if (Gathers()) {
      gathered = parts_.Reserve(shape_.images * shape_.Places() * step_ * Size());
    }
    return Worker{pieces,  std::move(piece), std::move(last), std::move(pack_image),
                  scratch, packed,           gathered};
  }

  int64_t Size() const { return SizeOf(shape_.operands); }

  void RunPiece(const Worker& worker, int64_t p, const ConvolutionOperands& at,
                std::byte* scratch) const {
    const bool is_last = p == pieces_ - 1;
    const Call& call = is_last ? worker.last : worker.piece;
    std::byte* const gathered = scratch + worker.gathered;
    const std::byte *x = at.x, *y = at.y;
    std::byte* to = at.w;
    if (by_batch_) {
      x += p * step_ * shape_.Pixels() * shape_.channels * Size();
      y += p * step_ * shape_.Places() * shape_.out_channels * Size();
      if (AddsParts()) to = scratch + sums_ + p * PartBytes();
    } else {
      y += p * step_ * Size();
      to += p * step_ * 4;
    }
    if (in_blocks_) {
      call.pack_result->Run(y, gathered);
      x = scratch + images_ + (by_batch_ ? p * step_ * ImageBytes() : 0);
      y = gathered;
    } else if (Gathers()) {
      const int64_t run = (is_last ? last_piece_ : piece_).out_channels * Size();
      for (int64_t i = 0; i < shape_.images * shape_.Places(); ++i) {
        std::memcpy(gathered + i * run, y + i * shape_.out_channels * Size(), run);
      }
      y = gathered;
    }
    call.run.Run(x, scratch + worker.packed, y, scratch + worker.scratch);
    call.unpack.Run(scratch + worker.packed, to);
  }

  ConvolutionShape shape_, piece_, last_piece_;
  bool by_batch_ = true, in_blocks_ = false;
  int64_t step_ = 0, pieces_ = 0;  // images or out channels of a piece; the last may have fewer
  std::vector<Worker> workers_;
  int64_t sums_ = 0, images_ = 0;  // where in scratch the parts' gradients and x in blocks lie
  ScratchLayout parts_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const Convolution>> PrepareWeightGradient(
    const ConvolutionShape& shape, int threads) {
  auto made = ByWeights::Make(shape, threads, true);
  // Where oneDNN has no blocks that all pieces like, images stay as they lie.
  return absl::IsNotFound(made.status()) ? ByWeights::Make(shape, threads, false) : made;
}

}  // namespace sluice::cpu
