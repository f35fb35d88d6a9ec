// Stretches of a stream's schedule that a device can be given at once: instructions of one firing,
// one after the other. None behind the first has to wait for what another stream does in the same
// step, and what they give other streams is told when all are given to the device. Pure.
#ifndef SLUICE_FRAMEWORK_RUNTIME_STRETCHES_H_
#define SLUICE_FRAMEWORK_RUNTIME_STRETCHES_H_

#include <cstdint>
#include <vector>

#include "framework/plan/program_index.h"

namespace sluice {

struct Stretch {
  int32_t actor = 0, micro = 0;  // firing within a step
  int32_t first = 0, end = 0;    // instructions [first, end) of the actor's script, two at least
  // Operands lie at the same addresses every so many steps.
  int32_t variants = 1;
  // Instructions behind the first that take slots or bytes which another stream had in an earlier
  // step. Where those are not free yet, the stretch is not to be given at once.
  std::vector<int32_t> takers = {};
};

// The most variants that a stretch has: each is a graph in the device's memory.
inline constexpr int32_t kMostVariants = 8;

// Of a listed stream, in its order; as long as they can be. Of one that is not listed: none.
std::vector<Stretch> FindStretches(const ProgramIndex& index, int32_t stream);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_RUNTIME_STRETCHES_H_
