// The convolution of images with weights [height, width, input channels, output channels], and its
// gradients. cuDNN computes them (cudnn_convolution.h) where it is installed and has an engine that
// fits; not those of one element without stride or padding, which are products as they lie.
//
// These, and what cuDNN does not do, are products of cuBLASLt: what the window reads at some places
// at a time is laid out in scratch, a row a place, and multiplied with the weights. It costs the
// patches' bytes, which cuDNN's kernels do not move.
//
//   forward             y [places, out] = patches of x [places, taps * in] w [taps * in, out]
//   gradient of images  dx [pixels, in] = patches of dy [pixels, taps * out] w turned
//   of weights          dw [taps * in, out] = sum of (patches of x)^T dy, over the places
//
// Groups are a batch of such products. A kernel of one element without stride or padding reads
// images as they lie.
#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

#include "framework/base/log.h"
#include "framework/kernels/convolution_shape.h"
#include "framework/kernels/cuda/all_kernels.h"
#include "framework/kernels/cuda/convolution_patches.h"
#include "framework/kernels/cuda/cublaslt.h"
#include "framework/kernels/cuda/cudnn_convolution.h"
#include "framework/kernels/cuda/launch.h"

namespace sluice::cuda {
namespace {

// Patches beyond this many bytes gain nothing.
constexpr int64_t kMostPatches = 32 << 20;
// Rows of a block of patches, where there are several, so that all start aligned.
constexpr int64_t kRowMultiple = 32;

// Of what the op allows (ops/convolution.cc, CudaScratchOf).
int64_t MostPatches(const ConvolutionShape& s) {
  const int64_t x = (s.height + 2) * (s.width + 2) * std::max<int64_t>(s.channels, 32);
  const int64_t y = (s.out_height + 2) * (s.out_width + 2) * std::max<int64_t>(s.out_channels, 32);
  return std::min(kMostPatches, std::min<int64_t>(16, s.images) * 32 * (x + y));
}
constexpr int64_t kMostWorkspace = (1 << 20) - 1024;

int64_t WholeLines(int64_t bytes) {
  constexpr int64_t kLine = CublasLtProduct::kWorkspaceAlignment;
  return (bytes + kLine - 1) / kLine * kLine;
}

// Images as they lie are the patches.
bool ReadsInPlace(const ConvolutionShape& s) {
  return s.kernel_height == 1 && s.kernel_width == 1 && s.stride_height == 1 &&
         s.stride_width == 1 && s.height == s.out_height && s.width == s.out_width;
}

class PatchConvolution {
 public:
  PatchConvolution(ConvolutionPass pass, const ConvolutionShape& shape, int64_t alignment)
      : pass_(pass), s_(shape), alignment_(alignment), geometry_(GeometryOf(pass, shape)) {
    const int64_t places = geometry_.height.places * geometry_.width.places;
    total_rows_ = s_.images * places;
    result_bytes_ = ResultElements() * SizeOf(ResultType());
    reads_in_place_ = ReadsInPlace(s_);
    turns_weights_ = pass == ConvolutionPass::kInputGradient && !reads_in_place_;
  }

  absl::Status Prepare() {
    empty_ = result_bytes_ == 0 || total_rows_ == 0 || geometry_.Depth() == 0;
    if (empty_) return absl::OkStatus();
    const int64_t row_bytes = geometry_.RowElements() * SizeOf(s_.operands);
    rows_ = total_rows_;
    if (!reads_in_place_ && rows_ * row_bytes > MostPatches(s_)) {
      rows_ = std::max<int64_t>(1, MostPatches(s_) / row_bytes);
      if (rows_ > kRowMultiple) rows_ = rows_ / kRowMultiple * kRowMultiple;
    }
    blocks_ = (total_rows_ + rows_ - 1) / rows_;
    RETURN_IF_ERROR(PrepareProducts());
    weights_at_ = reads_in_place_ ? 0 : WholeLines(rows_ * row_bytes);
    workspace_at_ = weights_at_;
    if (turns_weights_) workspace_at_ += WholeLines(s_.WeightElements() * SizeOf(s_.operands));
    return absl::OkStatus();
  }

  int64_t scratch() const { return empty_ ? 0 : workspace_at_ + workspace_; }

  absl::Status Run(const KernelContext& context, std::byte* x, std::byte* w, std::byte* y,
                   std::byte* scratch) const {
    if (empty_)
      return Clear(context, pass_ == ConvolutionPass::kForward         ? y
                            : pass_ == ConvolutionPass::kInputGradient ? x
                                                                       : w);
    const std::byte* weights = w;
    if (turns_weights_) {
      const WeightGeometry of = {s_.kernel_height * s_.kernel_width, s_.channels / s_.groups,
                                 s_.groups, s_.out_channels / s_.groups};
      RETURN_IF_ERROR(TurnWeights(context, of, s_.operands, w, scratch + weights_at_));
      weights = scratch + weights_at_;
    }
    std::byte* const images = pass_ == ConvolutionPass::kInputGradient ? y : x;
    for (int64_t block = 0; block < blocks_; ++block) {
      const int64_t first = block * rows_, rows = std::min(rows_, total_rows_ - first);
      const std::byte* patches = images;
      if (!reads_in_place_) {
        RETURN_IF_ERROR(
            GatherPatches(context, geometry_, s_.operands, first, rows, images, scratch));
        patches = scratch;
      }
      RETURN_IF_ERROR(
          Multiply(context, block, patches, weights, {x, w, y}, scratch + workspace_at_));
    }
    return absl::OkStatus();
  }

 private:
  struct Tensors {
    std::byte *x, *w, *y;
  };

  static PatchAxis AxisOf(bool backward, int64_t in, int64_t out, int64_t taps, int64_t stride,
                          int64_t dilation, int64_t padding) {
    // Forward, place p reads pixel p * stride + t * dilation - padding; backward, pixel p is read
    // by the places q for which q * stride + t * dilation - padding is p.
    if (!backward) return {out, taps, in, stride, dilation, -padding, 1};
    return {in, taps, out, 1, -dilation, padding, stride};
  }
  static PatchGeometry GeometryOf(ConvolutionPass pass, const ConvolutionShape& s) {
    const bool backward = pass == ConvolutionPass::kInputGradient;
    return {.height = AxisOf(backward, s.height, s.out_height, s.kernel_height, s.stride_height,
                             s.dilation_height, s.padding.top),
            .width = AxisOf(backward, s.width, s.out_width, s.kernel_width, s.stride_width,
                            s.dilation_width, s.padding.left),
            .groups = s.groups,
            .channels = (backward ? s.out_channels : s.channels) / s.groups};
  }

  DType ResultType() const {
    return pass_ == ConvolutionPass::kWeightGradient ? DType::kF32 : s_.operands;
  }
  int64_t ResultElements() const {
    switch (pass_) {
      case ConvolutionPass::kForward:
        return s_.images * s_.Places() * s_.out_channels;
      case ConvolutionPass::kInputGradient:
        return s_.images * s_.Pixels() * s_.channels;
      case ConvolutionPass::kWeightGradient:
        return s_.WeightElements();
    }
    return 0;
  }

  absl::Status Clear(const KernelContext& context, std::byte* result) const {
    if (result_bytes_ == 0) return absl::OkStatus();
    return FromCuda(
        cudaMemsetAsync(result, 0, static_cast<size_t>(result_bytes_), StreamOf(context).handle()),
        "cudaMemsetAsync");
  }

  // Of a block of so many rows.
  MatrixProduct ProductOf(int64_t rows, bool accumulate) const {
    const int64_t depth = geometry_.Depth(), of_group = s_.out_channels / s_.groups;
    MatrixProduct p = {.batch = s_.groups, .m = rows, .n = of_group, .k = depth};
    p.row_a = geometry_.RowElements();
    p.batch_a = depth;
    p.row_b = p.row_c = s_.out_channels;
    p.batch_b = p.batch_c = of_group;
    if (pass_ == ConvolutionPass::kInputGradient) {
      p.n = p.batch_c = s_.channels / s_.groups;
      p.row_c = s_.channels;
      p.transpose_b = !turns_weights_;
      if (turns_weights_) {
        p.row_b = p.n;
        p.batch_b = depth * p.n;
      }
    } else if (pass_ == ConvolutionPass::kWeightGradient) {
      p.m = depth;
      p.k = rows;
      p.transpose_a = true;
    }
    p.operands = s_.operands;
    p.result = ResultType();
    p.accumulate = accumulate;
    p.alignment = alignment_;
    // The blocks of a result start where rows of the one before end.
    const int64_t apart = rows_ * SizeOf(s_.operands);
    if (blocks_ > 1) p.alignment = std::min<int64_t>(p.alignment, apart & -apart);
    return p;
  }

  // The first block, those between, and the last, which may have fewer rows. Blocks of a gradient
  // of weights are added to it.
  absl::Status PrepareProducts() {
    const bool adds = pass_ == ConvolutionPass::kWeightGradient;
    const int64_t last = total_rows_ - (blocks_ - 1) * rows_;
    for (const MatrixProduct& product : {ProductOf(blocks_ > 1 ? rows_ : last, false),
                                         ProductOf(rows_, adds), ProductOf(last, adds)}) {
      ASSIGN_OR_RETURN(std::shared_ptr<const CublasLtProduct> prepared,
                       CublasLtProduct::Prepare(product, kMostWorkspace));
      workspace_ = std::max(workspace_, prepared->workspace());
      products_.push_back(std::move(prepared));
    }
    return absl::OkStatus();
  }

  absl::Status Multiply(const KernelContext& context, int64_t block, const std::byte* patches,
                        const std::byte* weights, const Tensors& at, std::byte* workspace) const {
    const size_t which = block == 0 ? 0 : block + 1 < blocks_ ? 1 : 2;
    const CublasLtProduct& product = *products_[which];
    const int64_t size = SizeOf(s_.operands);
    const int64_t y_offset = block * rows_ * s_.out_channels * size;
    switch (pass_) {
      case ConvolutionPass::kForward:
        return product.Run(context, patches, weights, at.y + y_offset, workspace);
      case ConvolutionPass::kInputGradient:
        return product.Run(context, patches, weights, at.x + block * rows_ * s_.channels * size,
                           workspace);
      case ConvolutionPass::kWeightGradient:
        return product.Run(context, patches, at.y + y_offset, at.w, workspace);
    }
    return absl::OkStatus();
  }

  const ConvolutionPass pass_;
  const ConvolutionShape s_;
  const int64_t alignment_;  // of operands, in bytes
  const PatchGeometry geometry_;
  int64_t total_rows_ = 0, result_bytes_ = 0;
  bool empty_ = false, reads_in_place_ = false, turns_weights_ = false;
  int64_t rows_ = 0, blocks_ = 0;  // rows of patches at a time
  std::vector<std::shared_ptr<const CublasLtProduct>> products_;
  int64_t weights_at_ = 0, workspace_at_ = 0, workspace_ = 0;  // in scratch, behind the patches
};

// How many convolutions of this process go which way; told once, when the first of them runs.
class Ways {
 public:
  static Ways& Global() {
    static Ways& ways = *new Ways();
    return ways;
  }

  void Count(const absl::Status& by_cudnn) {
    ++(by_cudnn.ok() ? by_cudnn_ : by_cublaslt_);
    if (absl::IsUnimplemented(by_cudnn) || by_cudnn.ok()) return;
    std::call_once(warned_, [&] {
      SLUICE_LOG(WARNING) << "convolutions are made without cuDNN: " << by_cudnn.message();
    });
  }
  void Tell() {
    std::call_once(told_, [this] {
      SLUICE_LOG(INFO) << "convolutions and their gradients: " << by_cudnn_ << " by cuDNN, "
                       << by_cublaslt_ << " by cuBLASLt";
    });
  }

 private:
  std::atomic<int> by_cudnn_ = 0, by_cublaslt_ = 0;
  std::once_flag warned_, told_;
};

template <typename Convolution>
PreparedKernel KernelOf(std::shared_ptr<const Convolution> convolution, ConvolutionPass pass) {
  return MakeKernel(
      [convolution, is = PlacesOf(pass)](const KernelContext& context, const Operands& at) {
        Ways::Global().Tell();
        return convolution->Run(context, at.bytes(is.x), at.bytes(is.w), at.bytes(is.y),
                                at.scratch<std::byte>());
      },
      convolution->scratch());
}

PreparedKernel PrepareConvolution(const KernelSpec& spec, ConvolutionPass pass) {
  ASSIGN_OR_RETURN(const ConvolutionShape shape, ConvolutionShapeOf(spec, pass));
  absl::Status by_cudnn = absl::UnimplementedError("");
  if (shape.Products() > 0 && !ReadsInPlace(shape) && spec.alignment >= kCudnnAlignment) {
    auto convolution = CudnnConvolution::Prepare(pass, shape, spec.most_scratch);
    by_cudnn = convolution.status();
    // What cuDNN takes for nonsense is a mistake of ours, which no other way should hide.
    if (absl::IsInvalidArgument(by_cudnn) || absl::IsInternal(by_cudnn)) return by_cudnn;
    Ways::Global().Count(by_cudnn);
    if (by_cudnn.ok()) return KernelOf(*std::move(convolution), pass);
  } else {
    Ways::Global().Count(by_cudnn);
  }
  const auto convolution = std::make_shared<PatchConvolution>(pass, shape, spec.alignment);
  RETURN_IF_ERROR(convolution->Prepare());
  return KernelOf<PatchConvolution>(convolution, pass);
}

}  // namespace

PreparedKernel PrepareConv2d(const KernelSpec& spec) {
  return PrepareConvolution(spec, ConvolutionPass::kForward);
}

PreparedKernel PrepareConv2dInputGradient(const KernelSpec& spec) {
  return PrepareConvolution(spec, ConvolutionPass::kInputGradient);
}

PreparedKernel PrepareConv2dWeightGradient(const KernelSpec& spec) {
  return PrepareConvolution(spec, ConvolutionPass::kWeightGradient);
}

}  // namespace sluice::cuda
