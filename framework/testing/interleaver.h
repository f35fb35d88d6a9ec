// Executes a program in a random order: messages arrive, actors begin and instructions end as a
// seed decides, every order that the protocol allows being possible. A Checker watches each step.
// For tests; one thread.
#ifndef SLUICE_FRAMEWORK_TESTING_INTERLEAVER_H_
#define SLUICE_FRAMEWORK_TESTING_INTERLEAVER_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "framework/plan/program_index.h"
#include "framework/testing/symbolic.h"

namespace sluice {

// Mistakes in the protocol, planted to see that they are found.
enum class PlantedFault {
  kNone,
  kAckBeforeRead,  // a reader gives a slot back when it begins to read
  kMissingReq,     // one req is lost
  kEarlyUpdate,    // a producer is told once too often that its state is free to be changed
};

struct InterleaverOptions {
  uint64_t seed = 0;
  int steps = 3;
  // Messages of one sender to one receiver keep their order. Default: they do, and always with
  // launch_ahead.
  bool fifo = true;
  // Streams launch ahead: messages between devices of one process carry a fence and leave at the
  // launch, unless the receiver's stream has no order. Default: they leave when the work has ended.
  bool launch_ahead = false;
  PlantedFault fault = PlantedFault::kNone;
  // Count the acks of each slot against what has been released. Default: yes.
  bool count_credits = true;
  // What the actors believe, if not the program that is checked. Default: the same.
  const ProgramIndex* believed = nullptr;
  SymbolicState initial;      // by register; default: 0
  std::string ahead, behind;  // actors: how far the one gets ahead of the other is measured
};

struct Interleaving {
  SymbolicOutcome outcome;
  uint64_t order = 0;  // a hash of the order in which instructions began
  int64_t ahead = 0;   // firings
};

// Internal: a hazard, or counts that do not agree. FailedPrecondition: it got stuck.
absl::StatusOr<Interleaving> RunInterleaved(const ProgramIndex& index,
                                            const InterleaverOptions& options);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TESTING_INTERLEAVER_H_
