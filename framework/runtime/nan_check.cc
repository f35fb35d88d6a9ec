#include "framework/runtime/nan_check.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "framework/tensor/finite.h"

namespace sluice {
namespace {

class NanCheck final : public Kernel {
 public:
  NanCheck(std::unique_ptr<Kernel> kernel, std::vector<WrittenOperand> written)
      : kernel_(std::move(kernel)), written_(std::move(written)) {}

  absl::Status Launch(const KernelContext& firing, std::byte* const* operands,
                      std::byte* scratch) override {
    const absl::Status status = kernel_->Launch(firing, operands, scratch);
    if (!status.ok()) return status;
    for (size_t i = 0; i < written_.size(); ++i) {
      const WrittenOperand& x = written_[i];
      const bool bad = x.may_be_infinite
                           ? HasNan(x.dtype, operands[x.operand], x.elements)
                           : FirstNotFinite(x.dtype, operands[x.operand], x.elements).has_value();
      if (!bad) continue;
      return absl::OutOfRangeError(absl::StrCat(
          written_.size() == 1 ? "a result"
                               : absl::StrCat("result ", i + 1, " of ", written_.size()),
          " is NaN or infinite"));
    }
    return absl::OkStatus();
  }
  int64_t scratch() const override { return kernel_->scratch(); }

 private:
  const std::unique_ptr<Kernel> kernel_;
  const std::vector<WrittenOperand> written_;
};

}  // namespace

std::unique_ptr<Kernel> MakeNanCheck(std::unique_ptr<Kernel> kernel,
                                     std::vector<WrittenOperand> written) {
  return std::make_unique<NanCheck>(std::move(kernel), std::move(written));
}

}  // namespace sluice
