#include "framework/kernels/movement_shape.h"

#include "framework/attributes/attributes.h"
#include "framework/base/status.h"

namespace sluice {

absl::StatusOr<Shape> TransposedStrides(const KernelSpec& spec) {
  ASSIGN_OR_RETURN(const TransposeAttributes attributes,
                   ParseAttributes<TransposeAttributes>(spec.attributes));
  const Shape in = spec.inputs[0].local.Strides();
  Shape strides;
  for (int64_t p : attributes.permutation) strides.Append(in[static_cast<int>(p)]);
  return strides;
}

absl::StatusOr<Shape> TransposedBackStrides(const KernelSpec& spec) {
  ASSIGN_OR_RETURN(const TransposeAttributes attributes,
                   ParseAttributes<TransposeAttributes>(spec.attributes));
  const Shape in = spec.inputs[0].local.Strides();
  Shape strides = in;
  for (int d = 0; d < in.rank(); ++d) strides[static_cast<int>(attributes.permutation[d])] = in[d];
  return strides;
}

absl::StatusOr<int64_t> SliceBegin(const KernelSpec& spec) {
  ASSIGN_OR_RETURN(const SliceAttributes attributes,
                   ParseAttributes<SliceAttributes>(spec.attributes));
  return attributes.begin * spec.inputs[0].local.Strides()[static_cast<int>(attributes.dim)];
}

absl::StatusOr<PaddedPieces> PaddedPiecesOf(const KernelSpec& spec) {
  ASSIGN_OR_RETURN(const SliceAttributes attributes,
                   ParseAttributes<SliceAttributes>(spec.attributes));
  const Shard &x = spec.inputs[0], &y = spec.outputs[0];
  const int dim = static_cast<int>(attributes.dim);
  int64_t outer = 1, inner = SizeOf(y.dtype);
  for (int d = 0; d < y.local.rank(); ++d) {
    if (d < dim) outer *= y.local[d];
    if (d > dim) inner *= y.local[d];
  }
  return PaddedPieces{outer, x.local[dim] * inner, attributes.begin * inner, y.local[dim] * inner};
}

}  // namespace sluice
