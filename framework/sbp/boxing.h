// Boxing brings a logical tensor from one (mesh, NdSbp) to another (OneFlow paper, section 3.2).
// FindBoxing gives it as phases, which stay symbolic: selection prices them, lowering expands them
// for the devices that it needs, so they cannot disagree. Meshes here have space axes only; time
// axes are the lowering's (docs/sbp.md).
#ifndef SLUICE_FRAMEWORK_SBP_BOXING_H_
#define SLUICE_FRAMEWORK_SBP_BOXING_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/machine/machine.h"
#include "framework/sbp/boxing_phase.h"
#include "framework/sbp/layout.h"
#include "framework/sbp/phase_price.h"

namespace sluice {

// Empty phases: every device already holds what it should.
struct SymbolicBoxing {
  std::vector<BoxingPhase> phases;
  std::vector<PhaseLoad> loads;  // of each
  int64_t bytes = 0;  // that cross between devices, all together; at most, where a phase says so
  int64_t nanoseconds = 0;
  int64_t between_hosts = 0;     // of `bytes`, at most
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

// FindBoxing and PhaseSteps with a memory: selection asks for the same few pairs over and over, and
// lowering for the same steps for every layer of one shape. One thread.
class BoxingPlanner {
 public:
  explicit BoxingPlanner(const Machine& machine) : machine_(machine) {}

  absl::StatusOr<const SymbolicBoxing*> Find(const Layout& from, const Layout& to,
                                             const Shape& shape, DType dtype);
  // `phase` is one of a boxing that was found here, for tensors of `shape`.
  const std::vector<PhaseWrite>& Steps(const BoxingPhase& phase, const Shape& shape,
                                       int64_t device);
  // PhaseReaders of such a phase.
  const std::vector<std::vector<int64_t>>& Readers(const BoxingPhase& phase, const Shape& shape,
                                                   int64_t device);

 private:
  Machine machine_;
  std::map<std::string, std::unique_ptr<SymbolicBoxing>> boxings_;
  std::map<std::pair<const BoxingPhase*, int64_t>, std::vector<PhaseWrite>> steps_;
  std::map<std::pair<const BoxingPhase*, int64_t>, std::vector<std::vector<int64_t>>> readers_;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_SBP_BOXING_H_
