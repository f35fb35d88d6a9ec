// Instructions that are many calls of an op at once (KernelSpec::calls): a call of them by itself,
// and a kernel that makes one after the other, for ops that have no kernel of their own for it.
#ifndef SLUICE_FRAMEWORK_KERNELS_CALLS_H_
#define SLUICE_FRAMEWORK_KERNELS_CALLS_H_

#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "framework/kernels/kernel.h"

namespace sluice {

// One call of several, which all have as many operands.
KernelSpec CallOf(const KernelSpec& spec, int call);
// Where its operands stand among all, inputs and then outputs.
struct CallPlace {
  int inputs, outputs;  // how many of each
  int first_input, first_output;
  int operand(int i) const { return i < inputs ? first_input + i : first_output + i - inputs; }
};
CallPlace PlaceOfCall(const KernelSpec& spec, int call);

// Errors: of `prepare`.
absl::StatusOr<std::unique_ptr<Kernel>> PrepareEachCall(
    const KernelSpec& spec,
    absl::FunctionRef<absl::StatusOr<std::unique_ptr<Kernel>>(const KernelSpec&)> prepare);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_KERNELS_CALLS_H_
