// With check_nan: looks at what a kernel wrote, behind it on its stream.
#include <utility>

#include "framework/kernels/cuda/all_kernels.h"
#include "framework/kernels/cuda/elementwise.h"
#include "framework/kernels/cuda/set_error.h"

namespace sluice::cuda {
namespace {

// The bits of a NaN without its sign are more than those of infinity.
template <typename Word>
__global__ void __launch_bounds__(kElementwiseThreads)
    FindNan(const Word* words, int64_t elements, Word magnitude, Word infinity,
            DeviceErrors errors) {
  for (int64_t i = ThreadIndex(); i < elements; i += NumThreads()) {
    if (static_cast<Word>(words[i] & magnitude) <= infinity) continue;
    SetError(errors, DeviceErrorKind::kNan, 0, 0, i);
    return;
  }
}

template <typename Word>
absl::Status LookAt(const KernelContext& context, const std::byte* data, int64_t elements,
                    Word infinity) {
  constexpr Word kMagnitude = static_cast<Word>(~Word{0}) >> 1;
  return Launch(context, FindNan<Word>, GridOver(elements), reinterpret_cast<const Word*>(data),
                elements, kMagnitude, infinity, StreamOf(context).errors());
}

class NanCheck final : public Kernel {
 public:
  NanCheck(std::unique_ptr<Kernel> kernel, std::vector<WrittenOperand> written)
      : kernel_(std::move(kernel)), written_(std::move(written)) {}

  absl::Status Launch(const KernelContext& context, std::byte* const* operands,
                      std::byte* scratch) override {
    RETURN_IF_ERROR(kernel_->Launch(context, operands, scratch));
    for (const WrittenOperand& x : written_) {
      if (x.elements > 0) RETURN_IF_ERROR(Look(context, x, operands[x.operand]));
    }
    return absl::OkStatus();
  }
  int64_t scratch() const override { return kernel_->scratch(); }

 private:
  static absl::Status Look(const KernelContext& context, const WrittenOperand& x,
                           const std::byte* data) {
    if (x.dtype == DType::kBF16) return LookAt<uint16_t>(context, data, x.elements, 0x7f80);
    if (x.dtype == DType::kF32) return LookAt<uint32_t>(context, data, x.elements, 0x7f800000u);
    return LookAt<uint64_t>(context, data, x.elements, uint64_t{0x7ff} << 52);
  }

  const std::unique_ptr<Kernel> kernel_;
  const std::vector<WrittenOperand> written_;
};

}  // namespace

std::unique_ptr<Kernel> CheckNan(std::unique_ptr<Kernel> kernel,
                                 std::vector<WrittenOperand> written) {
  return std::make_unique<NanCheck>(std::move(kernel), std::move(written));
}

}  // namespace sluice::cuda
