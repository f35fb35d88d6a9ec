// Which elements the ops of movement copy where, from the shards of an instruction: what the
// kernels of all kinds of devices share.
#ifndef SLUICE_FRAMEWORK_KERNELS_MOVEMENT_SHAPE_H_
#define SLUICE_FRAMEWORK_KERNELS_MOVEMENT_SHAPE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "framework/kernels/kernel.h"

namespace sluice {

// How many elements of the input lie between neighbours along each dimension of the output, of
// transpose and of its gradient, which puts dimensions back.
absl::StatusOr<Shape> TransposedStrides(const KernelSpec& spec);
absl::StatusOr<Shape> TransposedBackStrides(const KernelSpec& spec);

// The input's element that is the first of slice's output.
absl::StatusOr<int64_t> SliceBegin(const KernelSpec& spec);

// pad copies `pieces` runs of so many bytes; `before` bytes of zeros are before each, and as many
// behind as make it `whole`.
struct PaddedPieces {
  int64_t pieces, bytes, before, whole;
};
absl::StatusOr<PaddedPieces> PaddedPiecesOf(const KernelSpec& spec);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_KERNELS_MOVEMENT_SHAPE_H_
