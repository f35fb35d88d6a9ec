// What a phase costs, in closed form: nothing here expands a group. Integers, so that all ranks
// decide alike. Pure; any thread.
#ifndef SLUICE_FRAMEWORK_SBP_PHASE_PRICE_H_
#define SLUICE_FRAMEWORK_SBP_PHASE_PRICE_H_

#include <cstdint>
#include <vector>

#include "framework/machine/machine.h"
#include "framework/sbp/boxing_phase.h"

namespace sluice {

// The two links that a price tells apart. Where there are three, what is faster than `near` is
// priced as if it were near: two-level recipes spare the slowest link alone.
struct NearAndFar {
  LinkKind near = LinkKind::kProcess, far = LinkKind::kProcess;
};

// How the groups along one axis lie over the nodes of a machine. A node is what the slowest link of
// the groups does not divide: a host where a group crosses hosts, else a process.
struct AxisNodes {
  int64_t inner = 1;    // neighbours that share a node in every group: blocks of this many
  bool regular = true;  // no two blocks of a group share a node
  NearAndFar links;     // the slowest inside a node, and that between nodes
};

// By axis of a mesh; and the slowest link between any two of its devices.
struct MeshNodes {
  std::vector<AxisNodes> axes;
  LinkKind slowest = LinkKind::kProcess;
};
MeshNodes NodesOf(const Mesh& mesh, const Machine& machine);
// Of the devices of two meshes.
LinkKind SlowestLink(const Mesh& a, const Mesh& b, const Machine& machine);

// Of one step, in elements. `near` comes to the busiest device from its own node, `far` from
// others; each is the most of any device. `local` it copies from itself.
struct PhaseStepLoad {
  int64_t near = 0, far = 0, local = 0;
  int64_t messages = 0;      // devices that the busiest one reads
  int64_t far_messages = 0;  // of those, in other nodes
  // Every device already holds what it shall have, in one contiguous run: nothing is done.
  bool in_place = false;
  NearAndFar links;
};

struct PhaseLoad {
  int64_t near = 0, far = 0;  // elements that cross between devices, all devices together
  std::vector<PhaseStepLoad> steps;
  // False: near + far is not less than what the expansion moves, and may be more.
  bool exact_bytes = true;
  // False: what is here counted as far may be near, and a step's busiest port may be less busy.
  bool exact_links = true;

  // Elements that cross between hosts; at most, where the links are not exact.
  int64_t BetweenHosts() const;
};

// `nodes` are those of the phase's axis or, where it has none, say of both meshes which link is the
// slowest.
PhaseLoad LoadOf(const BoxingPhase& phase, const Shape& shape, const MeshNodes& nodes,
                 const Machine& machine);

// The two halves of it.
PhaseLoad AxisLoadOf(const BoxingPhase& phase, const Shape& shape, const AxisNodes& nodes);
PhaseLoad WholeMeshLoadOf(const BoxingPhase& phase, const Shape& shape, const MeshNodes& nodes,
                          const Machine& machine);

struct BoxingCost {
  int64_t nanoseconds = 0;
  int64_t bytes = 0;  // between devices
  friend bool operator==(const BoxingCost&, const BoxingCost&) = default;
  friend auto operator<=>(const BoxingCost&, const BoxingCost&) = default;  // time, then bytes
  friend BoxingCost operator+(const BoxingCost& a, const BoxingCost& b) {
    return {a.nanoseconds + b.nanoseconds, a.bytes + b.bytes};
  }
};

// Each step costs a launch and, where anything crosses, a latency of the slowest link, half a
// latency of its own for each message, and the time of the busier of the two ports; or its local
// copies, where they take longer.
// Without the term for a message, direct recipes win in groups of hundreds, and the messages of a
// group are quadratic again.
int64_t PhaseStepNanoseconds(const PhaseStepLoad& load, DType dtype, const Machine& machine);
BoxingCost PhaseCost(const PhaseLoad& load, DType dtype, const Machine& machine);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_SBP_PHASE_PRICE_H_
