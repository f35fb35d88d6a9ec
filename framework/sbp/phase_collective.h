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
  std::string op;                          // all_reduce, reduce_scatter or all_gather
  Reduction reduction = Reduction::kNone;  // of the first two
};

// Nothing where the phase is another, and where a member's part is not one run of as many elements
// as each other's: the library knows no shapes, and cuts a buffer into equal parts.
//
// Example: rows of f32[6,4] scattered over two devices are 12 elements each, one behind the other;
// its columns lie in turn, and five rows cannot be cut alike.
//
// It holds of all groups of the mesh or of none, and looks at a few devices however many there are.
std::optional<PhaseCollective> CollectiveOf(const BoxingPhase& phase, const Shape& shape);

// Who meets in the collective of the device at `place` of the mesh: places, in their order along
// the phase's axis. REQUIRES: the phase is one.
std::vector<int64_t> MembersOfCollective(const BoxingPhase& phase, const Shape& shape,
                                         int64_t place);

// "all_reduce[1]:nccl", as PhaseName has it for other recipes.
std::string CollectiveName(const PhaseCollective& collective, int axis);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_SBP_PHASE_COLLECTIVE_H_
