// The groups of devices that the collectives of a rank's plan are of. Pure.
#ifndef SLUICE_FRAMEWORK_RUNTIME_COLLECTIVE_GROUPS_H_
#define SLUICE_FRAMEWORK_RUNTIME_COLLECTIVE_GROUPS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "framework/comm/comm_net.h"
#include "framework/comm/communicators.h"
#include "framework/plan/plan.pb.h"

namespace sluice {

// Each once, whichever programs have it; cards of this rank's devices as CardsOf deals them. `net`:
// null if there is one rank. Groups of devices that only count have nothing to do together and are
// left out. Unimplemented names a device of another kind.
absl::StatusOr<std::vector<CommunicatorGroup>> GroupsOfCollectives(const plan::Plan& plan,
                                                                   const CommNet* net);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_RUNTIME_COLLECTIVE_GROUPS_H_
