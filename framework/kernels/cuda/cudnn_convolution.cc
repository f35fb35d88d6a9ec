#include "framework/kernels/cuda/cudnn_convolution.h"

#include <array>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/kernels/cuda/cudnn_weights.h"
#include "framework/kernels/cuda/launch.h"

namespace sluice::cuda {
namespace {

using TensorId = CudnnGraph::TensorId;

// Of the workspace, which stands behind the turned weights.
constexpr int64_t kAlignment = 256;

int64_t TurnedBytes(const ConvolutionShape& s) {
  const int64_t bytes = s.WeightElements() * SizeOf(s.operands);
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// Tensors x, w, y get the numbers 1, 2, 3.
constexpr std::array<int64_t, 3> kNumbers = {1, 2, 3};

void Build(ConvolutionPass pass, const ConvolutionShape& s, CudnnGraph* graph) {
  const cudnnDataType_t type = s.operands == DType::kBF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
  // Channels are innermost, whatever order dimensions are named in.
  const auto channels_last = [&](int64_t n, int64_t channels, int64_t height, int64_t width) {
    return graph->Tensor({n, channels, height, width},
                         {height * width * channels, 1, width * channels, channels}, type);
  };
  const TensorId x = channels_last(s.images, s.channels, s.height, s.width);
  const TensorId w =
      channels_last(s.out_channels, s.channels / s.groups, s.kernel_height, s.kernel_width);
  const TensorId y = channels_last(s.images, s.out_channels, s.out_height, s.out_width);
  graph->Convolution(pass,
                     {{s.stride_height, s.stride_width},
                      {s.padding.top, s.padding.left},
                      {s.dilation_height, s.dilation_width}},
                     x, w, y);
}

// Plans of this process, or why there is none. A model has many convolutions of one shape, and
// several programs of each.
class Plans {
 public:
  static Plans& Global() {
    static Plans& plans = *new Plans();
    return plans;
  }

  absl::StatusOr<std::shared_ptr<const CudnnPlan>> Of(ConvolutionPass pass,
                                                      const ConvolutionShape& s,
                                                      int64_t most_workspace, CudnnHandle* handle) {
    const std::string key = absl::StrCat(
        handle->card(), "; pass ", static_cast<int>(pass), ", ", DTypeName(s.operands), " x ",
        s.images, ",", s.height, ",", s.width, ",", s.channels, " w ", s.kernel_height, ",",
        s.kernel_width, " y ", s.out_height, ",", s.out_width, ",", s.out_channels, " strides ",
        s.stride_height, ",", s.stride_width, " padding ", s.padding.top, ",", s.padding.left,
        " dilations ", s.dilation_height, ",", s.dilation_width, " groups ", s.groups,
        " workspace ", most_workspace);
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = plans_.find(key);
    if (found != plans_.end()) return found->second;
    const auto make = [&](cudnnHandle_t of) {
      CudnnGraph graph(handle->backend());
      Build(pass, s, &graph);
      return graph.Plan(
          {of, ""},
          CudnnNotesWithout(s.operands == DType::kBF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT),
          most_workspace);
    };
    return plans_.emplace(key, handle->Use(make)).first->second;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, absl::StatusOr<std::shared_ptr<const CudnnPlan>>> plans_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const CudnnConvolution>> CudnnConvolution::Prepare(
    ConvolutionPass pass, const ConvolutionShape& s, int64_t most_scratch) {
  // It takes them, but what its engines make of them nobody has seen, and no model has any.
  if (s.padding.top != s.padding.bottom || s.padding.left != s.padding.right) {
    return absl::UnimplementedError("cuDNN is not asked for windows of uneven padding");
  }
  ASSIGN_OR_RETURN(CudnnHandle* const handle, CudnnHandle::OfThisDevice());
  ASSIGN_OR_RETURN(std::shared_ptr<const CudnnPlan> plan,
                   Plans::Global().Of(pass, s, most_scratch - TurnedBytes(s), handle));
  return std::make_shared<const CudnnConvolution>(pass, s, handle, std::move(plan));
}

int64_t CudnnConvolution::scratch() const {
  return TurnedBytes(shape_) + plan_->engine().workspace;
}

absl::Status CudnnConvolution::Run(const KernelContext& context, std::byte* x, std::byte* w,
                                   std::byte* y, std::byte* scratch) const {
  const int64_t depth =
      shape_.kernel_height * shape_.kernel_width * (shape_.channels / shape_.groups);
  const bool of_weights = pass_ == ConvolutionPass::kWeightGradient;
  if (!of_weights) {
    RETURN_IF_ERROR(
        WeightsForCudnn(context, depth, shape_.out_channels, shape_.operands, w, scratch));
  }
  RETURN_IF_ERROR(handle_->UseOn(StreamOf(context), [&](cudnnHandle_t handle) {
    void* const addresses[] = {x, scratch, y};
    return plan_->Run(handle, kNumbers, addresses, scratch + TurnedBytes(shape_));
  }));
  if (!of_weights) return absl::OkStatus();
  return WeightsOfCudnn(context, depth, shape_.out_channels, shape_.operands, scratch, w);
}

}  // namespace sluice::cuda
