// With check_nan: looks at what a kernel wrote, behind it on its stream.
#include <utility>

#include "framework/kernels/cuda/all_kernels.h"
#include "framework/kernels/cuda/elementwise.h"
#include "framework/kernels/cuda/set_error.h"

namespace sluice::cuda {
namespace {

// Without their sign the bits of a float, read as a whole number, ascend with its size: those of
// infinity follow those of the largest number, and those of NaNs come after.
template <typename Word>
__global__ void __launch_bounds__(kElementwiseThreads)
    FindNan(const Word* words, int64_t elements, Word magnitude, Word largest, int64_t result,
            int64_t results, DeviceErrors errors) {
  for (int64_t i = ThreadIndex(); i < elements; i += NumThreads()) {
    if (static_cast<Word>(words[i] & magnitude) <= largest) continue;
    SetError(errors, DeviceErrorKind::kNan, result, results, i);
    return;
  }
}

template <typename Word>
absl::Status LookAt(const KernelContext& context, const std::byte* data, int64_t elements,
                    Word largest, int64_t result, int64_t results) {
  constexpr Word kMagnitude = static_cast<Word>(~Word{0}) >> 1;
  return Launch(context, FindNan<Word>, GridOver(elements), reinterpret_cast<const Word*>(data),
                elements, kMagnitude, largest, result, results, StreamOf(context).errors());
}

class NanCheck final : public Kernel {
 public:
  NanCheck(std::unique_ptr<Kernel> kernel, std::vector<WrittenOperand> written)
      : kernel_(std::move(kernel)), written_(std::move(written)) {}

  absl::Status Launch(const KernelContext& context, std::byte* const* operands,
                      std::byte* scratch) override {
    RETURN_IF_ERROR(kernel_->Launch(context, operands, scratch));
    for (size_t i = 0; i < written_.size(); ++i) {
      if (written_[i].elements > 0) RETURN_IF_ERROR(Look(context, i, operands));
    }
    return absl::OkStatus();
  }
  int64_t scratch() const override { return kernel_->scratch(); }

 private:
  absl::Status Look(const KernelContext& context, size_t result, std::byte* const* operands) const {
    const WrittenOperand& x = written_[result];
    const auto look = [&](auto infinity) {
      const auto largest = static_cast<decltype(infinity)>(infinity - (x.may_be_infinite ? 0 : 1));
      return LookAt(context, operands[x.operand], x.elements, largest, static_cast<int64_t>(result),
                    static_cast<int64_t>(written_.size()));
    };
    if (x.dtype == DType::kBF16) return look(uint16_t{0x7f80});
    if (x.dtype == DType::kF32) return look(uint32_t{0x7f800000});
    return look(uint64_t{0x7ff} << 52);
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
