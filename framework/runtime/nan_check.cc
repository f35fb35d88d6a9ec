#include "framework/runtime/nan_check.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

// The sum of a block's bits tells a NaN apart without a branch an element.
template <typename T, typename IsNan>
bool AnyNan(const std::byte* data, int64_t elements, IsNan is_nan) {
  const T* values = reinterpret_cast<const T*>(data);
  for (int64_t begin = 0; begin < elements; begin += 4096) {
    const int64_t end = std::min(elements, begin + 4096);
    int found = 0;
    for (int64_t i = begin; i < end; ++i) found |= is_nan(values[i]);
    if (found != 0) return true;
  }
  return false;
}

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
      if (!HasNan(x.dtype, operands[x.operand], x.elements)) continue;
      return absl::OutOfRangeError(written_.size() == 1 ? "a result is NaN"
                                                        : absl::StrCat("result ", i + 1, " of ",
                                                                       written_.size(), " is NaN"));
    }
    return absl::OkStatus();
  }
  int64_t scratch() const override { return kernel_->scratch(); }

 private:
  const std::unique_ptr<Kernel> kernel_;
  const std::vector<WrittenOperand> written_;
};

}  // namespace

bool HasNan(DType dtype, const std::byte* data, int64_t elements) {
  switch (dtype) {
    case DType::kF32:
      return AnyNan<uint32_t>(data, elements,
                              [](uint32_t x) { return (x & 0x7fffffffu) > 0x7f800000u; });
    case DType::kF64:
      return AnyNan<uint64_t>(data, elements,
                              [](uint64_t x) { return (x << 1) > (uint64_t{0x7ff} << 53); });
    case DType::kBF16:
      return AnyNan<uint16_t>(data, elements, [](uint16_t x) { return (x & 0x7fffu) > 0x7f80u; });
    case DType::kI32:
    case DType::kU8:
      return false;
  }
  return false;
}

std::unique_ptr<Kernel> MakeNanCheck(std::unique_ptr<Kernel> kernel,
                                     std::vector<WrittenOperand> written) {
  return std::make_unique<NanCheck>(std::move(kernel), std::move(written));
}

}  // namespace sluice
