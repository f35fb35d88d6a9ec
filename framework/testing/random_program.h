// Random programs, live by construction, and ways to break one of them in one place. For tests.
#ifndef SLUICE_FRAMEWORK_TESTING_RANDOM_PROGRAM_H_
#define SLUICE_FRAMEWORK_TESTING_RANDOM_PROGRAM_H_

#include <cstdint>
#include <random>
#include <string>

#include "framework/plan/plan.pb.h"

namespace sluice {

// Every read looks back in one global order of instructions, which the run in that order, micro
// batch by micro-batch, shows to be live. It may hold state, accumulators, rates, rings,
// temporaries, a session's register, collectives on sub-groups; scripts stop where their tokens are
// not there. States are called w0, w1, so that programs share them.
plan::Program RandomProgram(std::mt19937* random);

enum class Breakage { kToken, kQuota, kSlot, kEdge, kOrder, kRate, kReuse };
constexpr Breakage kBreakages[] = {Breakage::kToken, Breakage::kQuota, Breakage::kSlot,
                                   Breakage::kEdge,  Breakage::kOrder, Breakage::kRate,
                                   Breakage::kReuse};

struct Break {
  Breakage kind = Breakage::kToken;
  bool done = false;  // false: the program has nothing of the kind
  int32_t reg = -1;   // kToken, kQuota: whose
  int32_t ring = -1;  // kSlot
  int tokens = 1;     // kToken, kQuota, kSlot: how many were taken away
};
// The result may be live all the same.
Break BreakProgram(Breakage kind, std::mt19937* random, plan::Program* program);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TESTING_RANDOM_PROGRAM_H_
