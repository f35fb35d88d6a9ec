// A boxing as a short list of phases, which stay symbolic until somebody needs bytes. A phase says
// what changes along one mesh axis, or between whole meshes, and by which recipe. Its price has a
// closed form (phase_price.h). It expands for one device at a time, to what that device writes and
// whom it reads; and the inverse, who reads that device, is as closed as the expansion. So what a
// rank pays depends on its own devices and on their peers, never on the square of a group.
//
// A phase is a number of steps. A step writes one buffer on every device, and reads only buffers
// that the step before it wrote (the first one: the shards that the phase starts from), the
// device's own or a peer's. A device that has nothing to do in a step carries its bytes on.
// Every sum follows the canonical tree (fold_order.h), so all recipes give the same bits.
// Pure values and functions; any thread. Meshes have space axes only.
#ifndef SLUICE_FRAMEWORK_SBP_BOXING_PHASE_H_
#define SLUICE_FRAMEWORK_SBP_BOXING_PHASE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "framework/sbp/fold_order.h"
#include "framework/sbp/layout.h"
#include "framework/tensor/shape.h"

namespace sluice {

// V is the tensor that a group of n devices along the axis holds together, m the devices of a node.
enum class BoxingRecipe : uint8_t {
  kSlice,                  // B -> S: each device keeps its shard
  kPad,                    // B -> P: the first keeps the value, the others hold the identity
  kEmbed,                  // S -> P: each shard lies in a tensor of the identity
  kAllGather,              // S -> B: one step, each device reads all others
  kAllGatherTwoLevel,      // ... each shard enters a node once, then spreads inside: 2 steps
  kAllGatherDoubling,      // ... from one peer at distance 1, 2, 4, ..: log2 n steps
  kAllToAll,               // S -> S': one step
  kReduceScatter,          // P -> S: one step, each device folds its shard
  kReduceScatterTwoLevel,  // ... folded inside the nodes, then between them: 2 steps
  kReduceScatterHalving,   // ... at distances 1, 2, 4, .., then to where it belongs: log2 n + 1
  kAllReduce,              // P -> B: one step, each device folds all of V
  kAllReduceSplit,         // ... each folds 1 / n of V, then gathers: 2 steps
  kAllReduceTwoLevel,      // ... inside the nodes, between them, and back: 4 steps
  kAllReduceHalving,       // ... at distances 1, 2, 4, .., and back: 2 log2 n steps
  kCopy,                   // device i of one mesh to device i of another with the same axes
  kGeneral,                // each shard is slices of shards, folded: any two layouts, one step
};

struct BoxingPhase {
  BoxingRecipe recipe = BoxingRecipe::kGeneral;
  int axis = -1;      // along which groups move; -1: kCopy and kGeneral, between whole meshes
  int64_t inner = 1;  // of recipes of two levels: neighbours along the axis that share a node
  Layout from, to;    // on one mesh, but for kCopy and kGeneral
};

// What a source of a region is: a device, as its place in the mesh that the step reads (the first
// step of a phase between meshes reads `from.mesh`, every other one `to.mesh`), and the partials
// that its bytes are the fold of.
struct PhaseSource {
  int64_t device = 0;
  FoldRange partials;
};

// The elements of `box` are the fold of the same elements of the sources.
struct PhaseRegion {
  Box box;
  std::vector<PhaseSource> sources;
  // Postfix: an index into `sources`, or -1 to combine the two results before it, in the canonical
  // order of sums.
  std::vector<int> fold;
};

// What one device does in one step. Boxes are of the logical tensor or, in a recipe of flat ranges,
// one range of the row-major shard that all devices of the group hold alike.
struct PhaseWrite {
  std::vector<Box> pieces;  // of the written buffer, one after another; none is empty
  std::vector<PhaseRegion> regions;
  bool fill_identity = false;  // elements in no region are the reduction's identity
};

// "all_reduce[1]:halving": recipe, axis, and the way where it is not the direct one.
std::string PhaseName(const BoxingPhase& phase);
int PhaseStepCount(const BoxingPhase& phase);
// Whether pieces and boxes are flat ranges, of the source too.
bool IsFlat(BoxingRecipe recipe);

// The pieces of the buffer that a device holds after `steps` of the phase's steps; 0: its source.
std::vector<Box> PhasePieces(const BoxingPhase& phase, const Shape& shape, int steps,
                             int64_t device);

// The most elements that any device holds then: of its pieces, so that all can be given as much.
int64_t LargestBuffer(const BoxingPhase& phase, const Shape& shape, int steps);

// What the device writes, by step. `device` is a place in `to.mesh`.
std::vector<PhaseWrite> PhaseSteps(const BoxingPhase& phase, const Shape& shape, int64_t device);

// The place of the buffer that a device waits for in a step whether or not it takes bytes of it, so
// that all devices of a stage wait alike: its own or, between meshes, the one that stands for it.
int64_t WaitedFor(const BoxingPhase& phase, int step, int64_t device);

// The inverse of what is read: by step, the devices that read in it the buffer which `device` then
// has, itself left out; ascending places in `to.mesh`. In the first step `device` is a place in
// `from.mesh`; between meshes a reader may well be the same device, at its place in the other one.
std::vector<std::vector<int64_t>> PhaseReaders(const BoxingPhase& phase, const Shape& shape,
                                               int64_t device);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_SBP_BOXING_PHASE_H_
