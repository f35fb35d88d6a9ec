// Trades time for memory: what a forward region made and backward reads is computed again in
// backward, from what the region itself read, instead of being kept.
#ifndef SLUICE_FRAMEWORK_PASSES_RECOMPUTE_H_
#define SLUICE_FRAMEWORK_PASSES_RECOMPUTE_H_

#include "framework/passes/pass.h"

namespace sluice {

// A node as it is made again in backward: called "<name>/again", split as the first was, and
// drawing what it drew, for draws are keyed.
Node MadeAgain(const Node& node);

// What the regions are: those that a model marks (Scope::Recompute), or each of its blocks
// (Scope::Block), so that little more than the inputs of blocks is kept.
enum class RecomputedRegions { kMarked, kBlocks };

// Of a program with a backward phase.
GraphPass Recompute(RecomputedRegions regions);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_PASSES_RECOMPUTE_H_
