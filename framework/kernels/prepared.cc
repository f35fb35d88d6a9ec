#include "framework/kernels/prepared.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace sluice {

absl::Status NoKernel(const KernelSpec& spec) {
  const auto name = [](std::string* out, const Shard& shard) {
    absl::StrAppend(out, DTypeName(shard.dtype), shard.local.ToString());
  };
  const char* const kind = spec.device == DeviceKind::kCuda ? "CUDA" : "CPU";
  return absl::NotFoundError(absl::StrCat("no ", kind, " kernel for ", spec.op, "(",
                                          absl::StrJoin(spec.inputs, ", ", name), ") -> ",
                                          absl::StrJoin(spec.outputs, ", ", name)));
}

absl::Status RequireF32(const KernelSpec& spec, std::initializer_list<int> i32_inputs) {
  for (size_t i = 0; i < spec.inputs.size(); ++i) {
    bool integer = false;
    for (int listed : i32_inputs) integer |= listed == static_cast<int>(i);
    if (spec.inputs[i].dtype != (integer ? DType::kI32 : DType::kF32)) return NoKernel(spec);
  }
  for (const Shard& output : spec.outputs) {
    if (output.dtype != DType::kF32) return NoKernel(spec);
  }
  return absl::OkStatus();
}

absl::Status RequireTypes(const KernelSpec& spec, absl::Span<const DType> types) {
  if (types.size() != spec.inputs.size() + spec.outputs.size()) return NoKernel(spec);
  size_t i = 0;
  for (const DType dtype : types) {
    const bool input = i < spec.inputs.size();
    const Shard& shard = input ? spec.inputs[i] : spec.outputs[i - spec.inputs.size()];
    if (shard.dtype != dtype) return NoKernel(spec);
    ++i;
  }
  return absl::OkStatus();
}

absl::Status RequireAll(const KernelSpec& spec, DType dtype) {
  const auto differs = [dtype](const Shard& shard) { return shard.dtype != dtype; };
  if (std::ranges::any_of(spec.inputs, differs) || std::ranges::any_of(spec.outputs, differs)) {
    return NoKernel(spec);
  }
  return absl::OkStatus();
}

}  // namespace sluice
