// Where a rank's instructions read what other ranks hold, its bytes have to come over first. A pull
// is an actor of its own that brings what one instruction reads of one register there into a
// register here, its staging. Pure; any thread.
#ifndef SLUICE_FRAMEWORK_COMPILER_PULLS_H_
#define SLUICE_FRAMEWORK_COMPILER_PULLS_H_

#include "framework/compiler/schedule.h"
#include "framework/plan/plan.pb.h"

namespace sluice {

// Does the actor stand for one of another rank's (INSTRUCTION_REMOTE)?
bool IsRemote(const plan::Actor& actor);
bool IsPull(const plan::Actor& actor);

// Adds them behind all actors, registers and streams of a rank's schedule, whose instructions then
// read registers of their own rank alone.
Schedule AddPulls(Schedule schedule);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMPILER_PULLS_H_
