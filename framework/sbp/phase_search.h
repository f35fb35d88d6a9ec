// Which phases bring a tensor from one layout to another: the cheapest list, by closed prices.
#ifndef SLUICE_FRAMEWORK_SBP_PHASE_SEARCH_H_
#define SLUICE_FRAMEWORK_SBP_PHASE_SEARCH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/machine/machine.h"
#include "framework/sbp/boxing.h"
#include "framework/sbp/boxing_phase.h"

namespace sluice {

// Empty phases: every device already holds what it should.
struct SymbolicBoxing {
  std::vector<BoxingPhase> phases;
  int64_t bytes = 0;  // that cross between devices, all together; at most, where a phase says so
  int64_t nanoseconds = 0;
  std::string ToString() const;  // "reduce_scatter[0]+all_gather[1]", "identity"
};

// The cheapest known boxing; ties go to fewer bytes, then to the recipe that stands first in
// BoxingRecipe. No shard on the way is larger than the larger of the two ends' largest.
// Errors: an NdSbp that does not suit its mesh or the shape; P(sum) into P(max) and the like.
absl::StatusOr<SymbolicBoxing> FindBoxing(const Layout& from, const Layout& to, const Shape& shape,
                                          DType dtype, const Machine& machine);

// Every recipe that changes one symbol of an axis into another, in the order of BoxingRecipe.
// `inner`: devices of a group that share a node.
std::vector<BoxingRecipe> AxisRecipes(Sbp from, Sbp to, int64_t size, int64_t inner);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_SBP_PHASE_SEARCH_H_
