#include "framework/passes/zero.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

bool Splits(const Mesh& mesh, const SbpAnnotation& annotation, int dim) {
  return std::any_of(annotation.entries.begin(), annotation.entries.end(), [&](const auto& entry) {
    return mesh.AxisSize(entry.first) > 1 && entry.second == Sbp::S(dim);
  });
}

// -1: none.
int DimensionOf(const TensorInfo& parameter, const ZeroOptions& options) {
  const int64_t shards = options.mesh.AxisSize(options.axis);
  int second_choice = -1;
  for (int d = 0; d < parameter.type.shape.rank(); ++d) {
    if (parameter.type.shape[d] == 0 || parameter.type.shape[d] % shards != 0) continue;
    if (!Splits(options.mesh, parameter.annotation, d) &&
        !Splits(options.mesh, parameter.storage, d)) {
      return d;
    }
    if (second_choice < 0) second_choice = d;
  }
  return second_choice;
}

}  // namespace

absl::Status SplitParameters(const ZeroOptions& options, Graph* graph) {
  if (options.level < 0 || options.level > 3) {
    return absl::InvalidArgumentError(
        absl::StrCat("zero: expected a level from 0 to 3, got ", options.level));
  }
  if (options.level == 0 || options.mesh.AxisSize(options.axis) < 2) return absl::OkStatus();
  for (const auto& [parameter, none] : graph->TensorsOf(Role::kParameter)) {
    TensorInfo& info = graph->mutable_tensor(parameter);
    if (info.annotation.Find(options.axis) != nullptr ||
        info.storage.Find(options.axis) != nullptr || info.state.Find(options.axis) != nullptr) {
      continue;
    }
    const int dim = DimensionOf(info, options);
    if (dim < 0) continue;
    SbpAnnotation* const split = options.level == 3 ? &info.storage : &info.state;
    split->entries.emplace_back(options.axis, Sbp::S(dim));
  }
  return absl::OkStatus();
}

void SplitGradients(const ZeroOptions& options, const VariableGradients& gradients, Graph* graph) {
  if (options.level < 2) return;
  for (const auto& [parameter, gradient] : gradients) {
    if (gradient.kind != Gradient::kDense) continue;
    const TensorInfo& info = graph->tensor(parameter);
    const Sbp* split = info.state.Find(options.axis);
    if (split == nullptr) split = info.storage.Find(options.axis);
    SbpAnnotation& annotation = graph->mutable_tensor(gradient.tensors[0].id()).annotation;
    if (split == nullptr || annotation.Find(options.axis) != nullptr) continue;
    annotation.entries.emplace_back(options.axis, *split);
  }
}

}  // namespace sluice
