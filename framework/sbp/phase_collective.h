// Which phases one call of a library of collectives (NCCL) does, on every device of a group. Pure;
// any thread.
#ifndef SLUICE_FRAMEWORK_SBP_PHASE_COLLECTIVE_H_
#define SLUICE_FRAMEWORK_SBP_PHASE_COLLECTIVE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "framework/sbp/boxing_phase.h"

namespace sluice {

struct PhaseCollective {
  std::string op;                            // all_reduce, reduce_scatter or all_gather
  Reduction reduction = Reduction::kNone;    // of the first two
  std::vector<std::vector<int64_t>> groups;  // places in the mesh, in their order along the axis
};

// Nothing where the phase is another, and where a member's part is not one run of as many elements
// as each other's: the library knows no shapes, and cuts a buffer into equal parts.
//
// Example: rows of f32[6,4] scattered over two devices are 12 elements each, one behind the other;
// its columns lie in turn, and five rows cannot be cut alike.
std::optional<PhaseCollective> CollectiveOf(const BoxingPhase& phase, const Shape& shape);

// "all_reduce[1]:nccl", as PhaseName has it for other recipes.
std::string CollectiveName(const PhaseCollective& collective, int axis);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_SBP_PHASE_COLLECTIVE_H_
