// The devices along a phase's axis that one device moves things with. Internal to framework/sbp.
#ifndef SLUICE_FRAMEWORK_SBP_PHASE_GROUP_H_
#define SLUICE_FRAMEWORK_SBP_PHASE_GROUP_H_

#include <cstdint>

#include "framework/sbp/boxing_phase.h"

namespace sluice {

// No axis inside the phase's splits the dimension that the phase splits or joins (the legality of
// paths sees to it), so all boxes of a group are cuts of one.
struct PhaseGroup {
  PhaseGroup(const BoxingPhase& phase, const Shape& shape, int64_t device);

  int64_t size = 1, place = 0;    // of the group; of the device in it
  int64_t first = 0, stride = 1;  // of the group's devices in the mesh
  int64_t inner = 1;              // devices of the group in a node
  Box base;                       // what the group holds together
  Sbp from, to;                   // along the axis
  // What halving halves: the flat shard, or the dimension that ends up split.
  int64_t line = 0;

  int64_t Peer(int64_t i) const { return first + i * stride; }
  int64_t outer() const { return size / inner; }
  Box From(int64_t i) const { return CutBy(from, i); }
  Box To(int64_t i) const { return CutBy(to, i); }
  // A range of what is halved, as a box.
  Box OnLine(Range range, bool flat) const;
  // Piece i of n of the flat shard.
  Range FlatPiece(int64_t n, int64_t i) const { return Cut({0, Volume(base)}, n, i); }

 private:
  Box CutBy(Sbp sbp, int64_t i) const {
    Box box = base;
    if (sbp.is_split()) box[sbp.dim] = Cut(box[sbp.dim], size, i);
    return box;
  }
};

// The piece of Cut(range, shards, i) that holds an index of the range.
int64_t CutAround(Range range, int64_t shards, int64_t index);

// The range that a device holds after it has folded its nodes up to a level.
Range HalvedRange(const PhaseGroup& group, int level);
// And after it has gathered up to a level, again by the tree, but of positions along the tensor:
// what a node holds is then one range, and the first device's is the largest. Neighbours in
// position are far apart as devices, so little crosses far, and with powers of two this undoes the
// halvings one by one.
Range GatheredRange(const PhaseGroup& group, int level);

// kCopy and kGeneral, which know no groups.
PhaseWrite WholeMeshStep(const BoxingPhase& phase, const Shape& shape, int64_t device);
std::vector<int64_t> WholeMeshReaders(const BoxingPhase& phase, const Shape& shape, int64_t device);
// Of kGeneral: the P axes that stay what they are, the outer ones of the source's.
std::vector<bool> KeptPartialAxes(const BoxingPhase& phase);
// Of kGeneral: whether a device's partial gets anything but the identity.
bool ReceivesFold(const BoxingPhase& phase, const std::vector<bool>& kept,
                  const std::vector<int64_t>& at);
// Of kGeneral: which of the replicas along an axis a reader takes.
int64_t ReplicaRead(const BoxingPhase& phase, int axis, const std::vector<int64_t>& at,
                    int64_t device);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_SBP_PHASE_GROUP_H_
