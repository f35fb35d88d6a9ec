#include "framework/kernels/cuda/cudnn_attention.h"

#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/kernels/cuda/cudnn_attention_graph.h"
#include "framework/kernels/cuda/cudnn_handle.h"
#include "framework/kernels/cuda/launch.h"

namespace sluice::cuda {
namespace {

using SharedAttention = std::shared_ptr<const CudnnAttention>;

class PlannedAttention final : public CudnnAttention {
 public:
  PlannedAttention(CudnnHandle* handle, const CudnnAttentionGraph& graph,
                   std::shared_ptr<const CudnnPlan> plan)
      : handle_(handle),
        tensors_(graph.tensors()),
        numbers_(graph.numbers()),
        plan_(std::move(plan)) {}

  absl::Status Run(const KernelContext& context, const Operands& at,
                   std::byte* workspace) const override {
    std::vector<int64_t> tensors;
    std::vector<void*> addresses;
    for (const auto& [tensor, address] :
         {std::pair(tensors_.q, at.q), std::pair(tensors_.k, at.k), std::pair(tensors_.v, at.v),
          std::pair(tensors_.y, at.y), std::pair(tensors_.logsumexp, at.logsumexp),
          std::pair(tensors_.y_gradient, at.dy), std::pair(tensors_.slopes, at.slopes),
          std::pair(tensors_.q_gradient, at.dq), std::pair(tensors_.k_gradient, at.dk),
          std::pair(tensors_.v_gradient, at.dv), std::pair(tensors_.bias, at.bias),
          std::pair(tensors_.mask, at.mask), std::pair(tensors_.seed, at.seed),
          std::pair(tensors_.offset, at.offset)}) {
      if (tensor.number == 0) continue;  // of the other pass, padding or dropout
      tensors.push_back(tensor.number);
      addresses.push_back(address);
    }
    std::map<int64_t, float> numbers = numbers_;
    for (auto& [number, value] : numbers) {
      tensors.push_back(number);
      addresses.push_back(&value);
    }
    return handle_->UseOn(StreamOf(context), [&](cudnnHandle_t handle) {
      return plan_->Run(handle, tensors, addresses, workspace);
    });
  }
  int64_t workspace() const override { return plan_->engine().workspace; }

 private:
  CudnnHandle* const handle_;
  const CudnnAttentionGraph::Tensors tensors_;
  const std::map<int64_t, float> numbers_;
  const std::shared_ptr<const CudnnPlan> plan_;
};

absl::StatusOr<SharedAttention> Make(AttentionPass pass, const CudnnAttentionShape& shape,
                                     int64_t most_workspace, CudnnHandle* handle) {
  CudnnGraph graph(handle->backend());
  CudnnAttentionGraph attention(shape, &graph);
  pass == AttentionPass::kForward ? attention.Forward() : attention.Backward();
  const auto make = [&](cudnnHandle_t of) {
    return graph.Plan({of, ""}, CudnnNotesWithout(shape.type), most_workspace);
  };
  ASSIGN_OR_RETURN(std::shared_ptr<const CudnnPlan> plan, handle->Use(make));
  return std::make_shared<const PlannedAttention>(handle, attention, std::move(plan));
}

}  // namespace

bool MayGoByCudnn(const KernelSpec& spec) {
  return spec.inputs[0].dtype == DType::kBF16 && spec.alignment >= kCudnnAlignment &&
         spec.inputs[0].NumElements() > 0;
}

absl::StatusOr<SharedAttention> CudnnAttention::Prepare(AttentionPass pass,
                                                        const CudnnAttentionShape& a,
                                                        int64_t most_workspace) {
  // Those of this process, or why there is none: all layers of a model share one, and an engine may
  // take half a second to compile.
  static std::mutex& mutex = *new std::mutex();
  static auto& made = *new std::map<std::string, absl::StatusOr<SharedAttention>>();
  ASSIGN_OR_RETURN(CudnnHandle* const handle, CudnnHandle::OfThisDevice());
  const std::string key =
      absl::StrCat(handle->card(), "; ", pass == AttentionPass::kForward ? "forward " : "gradient ",
                   a.causal ? "causal " : "padded ", a.batch, ",", a.time, ",", a.heads, ",",
                   a.size, " of ", a.row_heads, " scale ", a.scale, " dropout ",
                   static_cast<int>(a.dropout), " keep ", a.keep, " workspace ", most_workspace);
  const std::lock_guard<std::mutex> lock(mutex);
  const auto found = made.find(key);
  if (found != made.end()) return found->second;
  return made.emplace(key, Make(pass, a, most_workspace, handle)).first->second;
}

}  // namespace sluice::cuda
