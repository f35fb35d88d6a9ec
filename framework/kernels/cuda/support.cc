#include "framework/kernels/cuda/support.h"

#include <optional>
#include <utility>
#include <vector>

#include "framework/base/status.h"
#include "framework/device/cuda_device.h"
#include "framework/kernels/calls.h"
#include "framework/kernels/cuda/all_kernels.h"
#include "framework/kernels/cuda/cudnn_handle.h"

namespace sluice {
namespace {

// An instruction: says what it may touch before its kernel launches, whatever the kernel launches
// then.
class PlacedKernel final : public Kernel {
 public:
  PlacedKernel(std::unique_ptr<Kernel> kernel, const KernelSpec& spec, int32_t place)
      : kernel_(std::move(kernel)), place_(place), is_copy_(spec.transfer) {
    const auto add = [&](const Shard& shard, bool written) {
      operands_.push_back({nullptr, shard.NumBytes(), written});
    };
    for (size_t i = 0; i < spec.inputs.size(); ++i) {
      add(spec.inputs[i], i < spec.updates.size() && spec.updates[i]);
    }
    for (const Shard& shard : spec.outputs) add(shard, true);
    operands_.push_back({nullptr, kernel_->scratch(), true});
    operands_.push_back({nullptr, sizeof(int64_t), false});
  }

  absl::Status Launch(const KernelContext& context, std::byte* const* operands,
                      std::byte* scratch) override {
    CudaStream& stream = *static_cast<CudaStream*>(context.stream);
    const size_t n = operands_.size() - 2;
    for (size_t i = 0; i < n; ++i) operands_[i].begin = operands[i];
    operands_[n].begin = scratch;
    operands_[n + 1].begin = stream.step();
    stream.Begin(place_, is_copy_ ? std::nullopt : std::optional(context.step), operands_);
    const absl::Status launched = kernel_->Launch(context, operands, scratch);
    stream.End();
    return launched.ok() ? launched : stream.WithWorkUnderWay(launched);
  }
  int64_t scratch() const override { return kernel_->scratch(); }

 private:
  const std::unique_ptr<Kernel> kernel_;
  const int32_t place_;                // its number at the stream
  const bool is_copy_;                 // it launches no kernels
  std::vector<CudaOperand> operands_;  // at the end scratch and the number of the step
};

absl::StatusOr<std::unique_ptr<Kernel>> PrepareCudaKernel(const KernelSpec& spec, Stream* stream) {
  RETURN_IF_ERROR(static_cast<CudaStream*>(stream)->MakeCurrent());
  if (spec.transfer) return cuda::PrepareTransfer(spec);
  for (const KernelEntry& entry : CudaKernels()) {
    if (entry.op != spec.op) continue;
    ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel, spec.calls > 1 && !entry.joins
                                                         ? PrepareEachCall(spec, entry.prepare)
                                                         : entry.prepare(spec));
    // Whichever of them asked cuDNN: when it runs, the stream may be captured.
    RETURN_IF_ERROR(cuda::CudnnHandle::Serve(*static_cast<CudaStream*>(stream)));
    return kernel;
  }
  return NoKernel(spec);
}

std::unique_ptr<Kernel> Place(std::unique_ptr<Kernel> kernel, const KernelSpec& spec,
                              const KernelPlace& place, Stream* stream) {
  const int32_t number =
      static_cast<CudaStream*>(stream)->AddPlace(spec.op, place.before_step, place.after_step);
  return std::make_unique<PlacedKernel>(std::move(kernel), spec, number);
}

}  // namespace

absl::Span<const KernelEntry> CudaKernels() {
  static const std::vector<KernelEntry> kernels = {
#define SLUICE_KERNEL(op, Name) {op, cuda::Prepare##Name},
#define SLUICE_JOINED_KERNEL(op, Name) {op, cuda::Prepare##Name, /*joins=*/true},
#include "framework/kernels/cuda/kernel_list.inc"
#undef SLUICE_JOINED_KERNEL
#undef SLUICE_KERNEL
  };
  return kernels;
}

const DeviceSupport& CudaSupport() {
  static constexpr DeviceSupport support = {FreeCudaBytes,     CudaCardNames,  OpenCudaDevices,
                                            PrepareCudaKernel, cuda::CheckNan, Place};
  return support;
}

}  // namespace sluice
