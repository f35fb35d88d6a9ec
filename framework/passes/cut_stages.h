// Gives pipeline stages to a program that knows none: blocks (Scope::Block) are cut into stages of
// equally many, in the order of writing; all else follows its inputs, readers, forward node or
// parameter (Graph::SettleStages). A graph without blocks keeps the stages that it has.
#ifndef SLUICE_FRAMEWORK_PASSES_CUT_STAGES_H_
#define SLUICE_FRAMEWORK_PASSES_CUT_STAGES_H_

#include <cstdint>

#include "framework/passes/pass.h"

namespace sluice {

// What crosses stages crosses as one tensor: of sums in backward and update, terms of one stage are
// added up there first; a constant of the update is made on each stage that reads it. Error: fewer
// blocks than stages.
GraphPass CutStages(int64_t stages);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_PASSES_CUT_STAGES_H_
