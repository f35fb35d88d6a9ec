// What updates and the factors of their gradients share. For the files of this package only.
#ifndef SLUICE_FRAMEWORK_OPS_OPTIMIZER_H_
#define SLUICE_FRAMEWORK_OPS_OPTIMIZER_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "framework/ops/inference.h"

namespace sluice {

inline absl::Status CheckScalar(absl::string_view op, absl::string_view port, DType dtype,
                                const TensorType& type) {
  return CheckType(op, port, {dtype, {}}, type);
}

// What gradients are multiplied by, and the sum of squares it comes from: f64 if those are.
inline absl::Status CheckStatistic(absl::string_view op, absl::string_view port,
                                   const TensorType& type) {
  if (type.dtype == DType::kF64) return CheckScalar(op, port, DType::kF64, type);
  return CheckScalar(op, port, DType::kF32, type);
}

// What an update writes: its variable or, in a form that gives the value, a copy of it.
inline std::vector<double>& NewValue(const ReferenceCall& call) {
  if (call.outputs.empty()) return call.inputs[0].array.values;
  return call.outputs[0].array.values = call.inputs[0].array.values;
}

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_OPS_OPTIMIZER_H_
