#include "framework/passes/zero.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

// Into how many parts the axes of the annotations split the dimension.
int64_t PartsOf(const Mesh& mesh, const TensorInfo& parameter, int dim) {
  int64_t parts = 1;
  for (const MeshAxis& axis : mesh.axes()) {
    const Sbp* split = parameter.storage.Find(axis.name);
    if (split == nullptr) split = parameter.annotation.Find(axis.name);
    if (split != nullptr && *split == Sbp::S(dim)) parts *= axis.size;
  }
  return parts;
}

// -1: none.
int DimensionOf(const TensorInfo& parameter, const ZeroOptions& options) {
  const int64_t shards = options.mesh.AxisSize(options.axis);
  int second_choice = -1;
  for (int d = 0; d < parameter.type.shape.rank(); ++d) {
    const int64_t extent = parameter.type.shape[d], parts = PartsOf(options.mesh, parameter, d);
    if (extent == 0 || extent % (shards * parts) != 0) continue;
    if (parts == 1) return d;
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
