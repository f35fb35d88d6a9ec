#include "framework/kernels/calls.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "framework/base/status.h"

namespace sluice {
namespace {

class EachCall final : public Kernel {
 public:
  void Add(std::unique_ptr<Kernel> kernel, const CallPlace& place) {
    scratch_ = std::max(scratch_, kernel->scratch());
    calls_.push_back({std::move(kernel), place});
    operands_.resize(place.inputs + place.outputs);
  }

  absl::Status Launch(const KernelContext& context, std::byte* const* operands,
                      std::byte* scratch) override {
    for (const Call& call : calls_) {
      for (size_t i = 0; i < operands_.size(); ++i) {
        operands_[i] = operands[call.place.operand(static_cast<int>(i))];
      }
      RETURN_IF_ERROR(call.kernel->Launch(context, operands_.data(), scratch));
    }
    return absl::OkStatus();
  }
  int64_t scratch() const override { return scratch_; }

 private:
  struct Call {
    std::unique_ptr<Kernel> kernel;
    CallPlace place;
  };
  std::vector<Call> calls_;
  std::vector<std::byte*> operands_;  // of one call
  int64_t scratch_ = 0;
};

}  // namespace

CallPlace PlaceOfCall(const KernelSpec& spec, int call) {
  const int inputs = static_cast<int>(spec.inputs.size()) / spec.calls;
  const int outputs = static_cast<int>(spec.outputs.size()) / spec.calls;
  return {inputs, outputs, call * inputs, static_cast<int>(spec.inputs.size()) + call * outputs};
}

KernelSpec CallOf(const KernelSpec& spec, int call) {
  const CallPlace place = PlaceOfCall(spec, call);
  const auto part = [call](const auto& all, int count) {
    return std::decay_t<decltype(all)>(all.begin() + call * count,
                                       all.begin() + (call + 1) * count);
  };
  KernelSpec one = spec;
  one.calls = 1;
  one.inputs = part(spec.inputs, place.inputs);
  one.outputs = part(spec.outputs, place.outputs);
  if (!spec.updates.empty()) one.updates = part(spec.updates, place.inputs);
  if (!spec.takes.empty()) one.takes = part(spec.takes, place.outputs);
  for (int& input : one.takes) {  // another call's input becomes one that there is not
    if (input > 0) input = input > place.first_input ? input - place.first_input : place.inputs + 1;
  }
  return one;
}

absl::StatusOr<std::unique_ptr<Kernel>> PrepareEachCall(
    const KernelSpec& spec,
    absl::FunctionRef<absl::StatusOr<std::unique_ptr<Kernel>>(const KernelSpec&)> prepare) {
  auto kernel = std::make_unique<EachCall>();
  for (int call = 0; call < spec.calls; ++call) {
    ASSIGN_OR_RETURN(std::unique_ptr<Kernel> one, prepare(CallOf(spec, call)));
    kernel->Add(std::move(one), PlaceOfCall(spec, call));
  }
  return kernel;
}

}  // namespace sluice
