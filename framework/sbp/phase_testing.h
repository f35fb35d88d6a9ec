// For tests of phases: one expanded on every device, every check that it must pass, and its values.
#ifndef SLUICE_FRAMEWORK_SBP_PHASE_TESTING_H_
#define SLUICE_FRAMEWORK_SBP_PHASE_TESTING_H_

#include <string>
#include <vector>

#include "framework/machine/machine.h"
#include "framework/sbp/boxing_phase.h"
#include "framework/sbp/phase_price.h"
#include "framework/tensor/array.h"

namespace sluice {

// All that is known of one phase: its closed forms, and what each device says of itself.
struct ExpandedPhase {
  BoxingPhase phase;
  Shape shape;
  PhaseLoad load;
  std::vector<std::vector<PhaseWrite>> writes;             // by device of to.mesh
  std::vector<std::vector<std::vector<int64_t>>> readers;  // by device of from.mesh, then to.mesh
};

ExpandedPhase Expand(const BoxingPhase& phase, const Shape& shape, const Machine& machine);

// What the form of a phase promises, whatever the values: a step reads what its peers then hold;
// no buffer is larger than the larger of the two ends'; readers are the inverse of what is read;
// bytes, links and ports are those of the closed form, or bounded by it. "" if all is well.
std::string CheckForm(const ExpandedPhase& expanded, const Machine& machine);

// Runs a phase on host arrays, in the order of the meshes' devices.
std::vector<Array> Execute(const ExpandedPhase& expanded, const std::vector<Array>& sources);

// Expands, checks and runs phases one after another, and compares with the reference bit for bit.
std::string CheckPhases(const std::vector<BoxingPhase>& phases, const Layout& from,
                        const Layout& to, const Shape& shape, const Machine& machine,
                        const std::vector<Array>& shards);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_SBP_PHASE_TESTING_H_
