// Makes a program whose devices do not all share the host's memory one whose instructions reach
// their own memory space alone. Lowering knows no spaces: every fold reads its peers in place,
// every feed writes and every fetch reads where the tensor is wanted. Here
//   - work of the host goes to the host's device, which is a CPU;
//   - a fold that only moves bytes, on a device that can reach both ends, becomes a copy;
//   - anything else that reads a register of another space reads a staging register in its own,
//     which a copy of the register fills. Readers of one space share it.
// Pure; any thread.
#ifndef SLUICE_FRAMEWORK_COMPILER_TRANSFERS_H_
#define SLUICE_FRAMEWORK_COMPILER_TRANSFERS_H_

#include "absl/status/statusor.h"
#include "framework/compiler/schedule.h"
#include "framework/machine/machine.h"
#include "framework/plan/plan.pb.h"

namespace sluice {

// Are there devices whose memory is not the host's?
bool NeedsTransfers(const plan::Plan& plan);

// Adds a CPU, to hold what the host feeds and fetches, to every rank that has none.
void AddHostDevices(plan::Plan* plan);

// `plan`: its devices and variables. `machine`: what a copy takes. Copies are actors behind those
// of the schedule. Internal: an instruction that writes another space's memory.
absl::StatusOr<Schedule> StageTransfers(const plan::Plan& plan, const Machine& machine,
                                        Schedule schedule);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMPILER_TRANSFERS_H_
