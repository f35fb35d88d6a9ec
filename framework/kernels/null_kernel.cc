#include "framework/kernels/null_kernel.h"

namespace sluice {
namespace {

class NullKernel : public Kernel {
 public:
  NullKernel(int64_t bytes, NullCounts* counts) : bytes_(bytes), counts_(counts) {}
  absl::Status Run(const KernelContext&, std::byte* const*, std::byte*) override {
    if (counts_ != nullptr) {
      counts_->runs.fetch_add(1, std::memory_order_relaxed);
      counts_->bytes.fetch_add(bytes_, std::memory_order_relaxed);
    }
    return absl::OkStatus();
  }

 private:
  int64_t bytes_;
  NullCounts* counts_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> PrepareNullKernel(const KernelSpec& spec,
                                                          NullCounts* counts) {
  int64_t bytes = 0;
  for (const Shard& shard : spec.inputs) bytes += shard.NumBytes();
  for (const Shard& shard : spec.outputs) bytes += shard.NumBytes();
  return std::unique_ptr<Kernel>(std::make_unique<NullKernel>(bytes, counts));
}

}  // namespace sluice
