// A layout: how a logical tensor lies on a mesh. Pure values and functions; any thread.
#ifndef SLUICE_FRAMEWORK_SBP_LAYOUT_H_
#define SLUICE_FRAMEWORK_SBP_LAYOUT_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/sbp/mesh.h"
#include "framework/sbp/nd_sbp.h"
#include "framework/tensor/array.h"

namespace sluice {

struct Layout {
  Mesh mesh;
  NdSbp sbp;
};

// The reference that tests compare with, which also reads and writes variables: the shards of a
// whole tensor, and the whole of its shards. Scatter puts the values in partial 0 of a P axis and
// the identity in the others. Shards are in the order of mesh.devices(). Gather checks that
// replicas agree bit for bit.
std::vector<Array> ScatterReference(const Layout& layout, const Array& whole);
absl::StatusOr<Array> GatherReference(const Layout& layout, const Shape& shape,
                                      const std::vector<Array>& shards);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_SBP_LAYOUT_H_
