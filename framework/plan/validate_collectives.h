// What the members of a collective must say alike, whatever executes it. Pure; any thread.
#ifndef SLUICE_FRAMEWORK_PLAN_VALIDATE_COLLECTIVES_H_
#define SLUICE_FRAMEWORK_PLAN_VALIDATE_COLLECTIVES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/plan/plan.pb.h"
#include "framework/plan/program_index.h"

namespace sluice {

// The attributes of a collective: its group, as places among the plan's devices, in the order in
// which the parts of a tensor lie on them. "devices=[0,2]".
std::string CollectiveAttributes(absl::Span<const int32_t> devices);
// The devices of a collective's group, in the order of their parts. InvalidArgument: none, one that
// the plan has not, or one twice.
absl::StatusOr<std::vector<int32_t>> DevicesOfCollective(const plan::Plan& plan,
                                                         const plan::Instruction& instruction);

// Each member is one of the group that all of them name, reduces alike, and has parts of one size:
// an all_reduce reads and writes as much, a reduce_scatter of n devices reads n times what it
// writes, an all_gather writes n times what it reads. REQUIRES: CheckPlaces said yes.
absl::Status CheckCollectives(const plan::Plan& plan, const ProgramIndex& index);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_PLAN_VALIDATE_COLLECTIVES_H_
