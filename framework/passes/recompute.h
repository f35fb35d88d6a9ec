// Trades time for memory: what a forward region (Scope::Recompute) made and backward reads is
// computed again in backward, from what the region itself read, instead of being kept.
#ifndef SLUICE_FRAMEWORK_PASSES_RECOMPUTE_H_
#define SLUICE_FRAMEWORK_PASSES_RECOMPUTE_H_

#include "framework/passes/pass.h"

namespace sluice {

// Of a program with a backward phase. A node computed again is called "<name>/again", is split as
// the first was, and draws what it drew, for draws are keyed.
GraphPass RecomputeRegions();

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_PASSES_RECOMPUTE_H_
