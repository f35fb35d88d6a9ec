#include "framework/kernels/async_kernel.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/device/async.h"

namespace sluice {
namespace {

constexpr int64_t kAlignment = 64;

class AsyncKernel final : public Kernel {
 public:
  AsyncKernel(std::unique_ptr<Kernel> kernel, int operands, bool transfer, KernelPlace place)
      : kernel_(std::move(kernel)),
        operands_(operands),
        transfer_(transfer),
        place_(std::move(place)),
        scratch_(kernel_->scratch() + kAlignment) {
    const auto address = reinterpret_cast<uintptr_t>(scratch_.data());
    scratch_at_ = scratch_.data() + (kAlignment - address % kAlignment) % kAlignment;
  }

  // The stream calls the kernel with its own scratch: that of the worker is another's by then.
  absl::Status Launch(const KernelContext& context, std::byte* const* operands,
                      std::byte*) override {
    return static_cast<AsyncStream*>(context.stream)
        ->Launch(&AsyncKernel::RunLate, this, context,
                 absl::MakeConstSpan(operands, static_cast<size_t>(operands_)), transfer_);
  }

 private:
  static absl::Status RunLate(void* state, const void* launched, std::byte* const* operands) {
    AsyncKernel& self = *static_cast<AsyncKernel*>(state);
    KernelContext context = *static_cast<const KernelContext*>(launched);
    context.stream = nullptr;
    const absl::Status status = self.kernel_->Launch(context, operands, self.scratch_at_);
    if (status.ok()) return status;
    return AddContext(status, absl::StrCat(self.place_.before_step, ", step ", context.step, ", ",
                                           self.place_.after_step));
  }

  const std::unique_ptr<Kernel> kernel_;
  const int operands_;
  const bool transfer_;
  const KernelPlace place_;
  std::vector<std::byte> scratch_;
  std::byte* scratch_at_;
};

}  // namespace

std::unique_ptr<Kernel> MakeAsyncKernel(std::unique_ptr<Kernel> kernel, int operands, bool transfer,
                                        KernelPlace place) {
  return std::make_unique<AsyncKernel>(std::move(kernel), operands, transfer, std::move(place));
}

}  // namespace sluice
