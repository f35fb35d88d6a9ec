// What a program says of a pull: the bytes that it is for, and whether its reader may have them
// where they lie. Pure.
#ifndef SLUICE_FRAMEWORK_RUNTIME_PLANNED_PULL_H_
#define SLUICE_FRAMEWORK_RUNTIME_PLANNED_PULL_H_

#include <cstdint>

#include "framework/comm/comm_net.h"
#include "framework/plan/program_index.h"

namespace sluice {

// The request of a pull's actor, but for its sequence.
PullRequest PlannedRequest(const ProgramIndex& index, int32_t program, int32_t actor);

// The actor that reads what a pull brings; -1: there is not just one.
int32_t ReaderOfPull(const ProgramIndex& index, int32_t actor);

// Whether a pull has one place and one reader, and begins again only once that is through: then the
// reader may be given the owner's bytes in place of a copy, and a copy may be asked for ahead.
bool MayLend(const ProgramIndex& index, int32_t actor);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_RUNTIME_PLANNED_PULL_H_
